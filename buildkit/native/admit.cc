#include "admit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace bk {
namespace {

// A governor that hands over to the next one is away for a moment: only then come the slots.
constexpr double kGraceSeconds = 2.0;
constexpr double kRetrySeconds = 0.5;
constexpr int kSlotPauseMs = 50;

// A change of less than this, or sooner than this after the last, is no news.
constexpr uint64_t kNewsBytes = uint64_t{4} << 20;
constexpr double kNewsSeconds = 0.09;

// A governor that does not take a line for so long counts as gone.
constexpr timeval kPatience = {10, 0};

double Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

Admission::Admission(std::string directory, int slots, std::string last_resort, std::string ask)
    : directory_(std::move(directory)),
      slots_(slots < 1 ? 1 : slots),
      last_resort_(std::move(last_resort)),
      ask_(std::move(ask)) {}

Admission::~Admission() {
  if (socket_ >= 0) close(socket_);
  GiveSlot();
}

bool Admission::Wait() {
  if (directory_.empty()) return true;
  lost_seconds_ = Now();
  if (socket_ < 0) Connect();
  while (true) {
    if (socket_ >= 0) {
      pollfd file = {socket_, POLLIN, 0};
      poll(&file, 1, -1);
      const Order order = Next();
      if (order == Order::kStart || order == Order::kGiveUp) return order == Order::kStart;
      continue;
    }
    if (Now() - lost_seconds_ > kGraceSeconds && TakeSlot()) return true;
    poll(nullptr, 0, kSlotPauseMs);
    if (Now() - tried_seconds_ > kRetrySeconds) Connect();
  }
}

Order Admission::Next() {
  if (socket_ < 0) return Order::kNone;
  while (true) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      const Order order = ParseOrder(std::string_view(received_).substr(0, end));
      received_.erase(0, end + 1);
      return order;
    }
    char block[256];
    const ssize_t count = recv(socket_, block, sizeof block, MSG_DONTWAIT);
    if (count > 0) {
      received_.append(block, static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      Lose();
      return Order::kContinue;
    } else if (errno == EAGAIN) {
      return Order::kNone;
    }
  }
}

void Admission::Began() {
  told_bytes_ = 0;
  told_seconds_ = 0;
  Send("began\n");
}

void Admission::Tell(uint64_t rss_bytes, double elapsed_seconds) {
  if (directory_.empty()) return;
  if (socket_ < 0) {
    if (Now() - tried_seconds_ < kRetrySeconds) return;
    if (!Connect()) {
      TakeSlot();
      return;
    }
    char line[64];
    std::snprintf(line, sizeof line, "resume\t%llu\t%.3f\n",
                  static_cast<unsigned long long>(rss_bytes), elapsed_seconds);
    if (Send(line)) GiveSlot();
  }
  const uint64_t change =
      rss_bytes > told_bytes_ ? rss_bytes - told_bytes_ : told_bytes_ - rss_bytes;
  if (change < kNewsBytes || elapsed_seconds - told_seconds_ < kNewsSeconds) return;
  told_bytes_ = rss_bytes;
  told_seconds_ = elapsed_seconds;
  Send("rss\t" + std::to_string(rss_bytes) + '\n');
}

void Admission::Out(const char* reason, uint64_t peak_bytes) {
  GiveSlot();
  floor_bytes_ = peak_bytes;
  Send("out\t" + std::string(reason) + '\t' + std::to_string(peak_bytes) + '\n');
}

void Admission::End(int status, uint64_t peak_bytes, double seconds) {
  char line[96];
  std::snprintf(line, sizeof line, "end\t%d\t%llu\t%.3f\n", status,
                static_cast<unsigned long long>(peak_bytes), seconds);
  Send(line);
}

// The path of a socket address holds 107 bytes; by way of an open directory any path fits.
// Source: unix(7).
bool Admission::Connect() {
  tried_seconds_ = Now();
  const int folder = open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", folder);
  const int handle = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle >= 0) setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  const bool is_open =
      handle >= 0 && connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_ours = is_open && getsockopt(handle, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                       peer.uid == geteuid();
  close(folder);
  if (!is_ours) {
    if (handle >= 0) close(handle);
    return false;
  }
  socket_ = handle;
  received_.clear();
  return Send(ask_ + '\t' + std::to_string(floor_bytes_) + '\n');
}

void Admission::Lose() {
  close(socket_);
  socket_ = -1;
  lost_seconds_ = Now();
}

bool Admission::Send(const std::string& line) {
  if (socket_ < 0) return false;
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = send(socket_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      // The descriptor stays, so that whoever polls it sees the end and continues a paused call.
      shutdown(socket_, SHUT_RDWR);
      return false;
    }
    done += static_cast<size_t>(count);
  }
  return true;
}

bool Admission::TakeSlot() {
  bool has_slots = false;
  for (int number = 0; slot_ < 0 && number < slots_; ++number) {
    const std::string path = directory_ + "/slot-" + std::to_string(number);
    has_slots = TryLock(path, O_RDWR | O_CREAT) || has_slots;
  }
  if (slot_ < 0 && !has_slots && !TryLock(last_resort_, O_RDONLY)) return true;
  return slot_ >= 0;
}

// Takes the lock of a file if it is free; false if the file cannot be opened.
bool Admission::TryLock(const std::string& path, int flags) {
  const int handle = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (handle < 0) return false;
  if (flock(handle, LOCK_EX | LOCK_NB) == 0) {
    slot_ = handle;
  } else {
    close(handle);
  }
  return true;
}

void Admission::GiveSlot() {
  if (slot_ >= 0) close(slot_);
  slot_ = -1;
}

}  // namespace bk
