#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "ending.h"
#include "meter.h"
#include "usage.h"

namespace bk {
namespace {

// As much of a compiler's messages as a person wants to see in one error.
constexpr size_t kTailBytes = 8192;

// Messages are held back until it is known that the call is not repeated, but no more than this.
constexpr size_t kHeldBytes = size_t{1} << 20;

// Milliseconds between samples of memory: dense while a short call runs, then cheap.
constexpr int kFirstPauseMs = 4;
constexpr int kLastPauseMs = 50;

volatile sig_atomic_t group = 0;

// A paused compiler must wake up to see the signal; between two attempts the launcher itself ends.
void Forward(int number) {
  if (group > 0) {
    kill(-group, number);
    kill(-group, SIGCONT);
  } else {
    signal(number, SIG_DFL);
    raise(number);
  }
}

double Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::vector<char*> Pointers(const Args& argv) {
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void WriteAll(int file, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t count = write(file, data, size);
    if (count < 0 && errno != EINTR) return;  // nobody reads any more; the compiler goes on
    if (count > 0) {
      data += count;
      size -= static_cast<size_t>(count);
    }
  }
}

// Takes what the compiler wrote; false at the end of the pipe.
bool Drain(int pipe, Outcome* outcome) {
  char block[16384];
  const ssize_t count = read(pipe, block, sizeof block);
  if (count == 0) return false;
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  outcome->stderr_held.append(block, static_cast<size_t>(count));
  if (outcome->stderr_held.size() > kHeldBytes) {
    Release(*outcome);
    outcome->stderr_held.clear();
  }
  std::string* tail = &outcome->stderr_tail;
  tail->append(block, static_cast<size_t>(count));
  if (tail->size() > 2 * kTailBytes) tail->erase(0, tail->size() - kTailBytes);
  return true;
}

// A compiler is what the kernel should end when memory is gone, not the build tool.
// Source: proc(5), "oom_score_adj"; raising one's own needs no privilege.
void OfferToKernel() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  WriteAll(file, "500", 3);
  close(file);
}

[[noreturn]] void Child(const Args& argv, const std::string& temporary, pid_t parent, int errors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
  setenv("BK_LAUNCH_NESTED", "1", 1);
  if (!temporary.empty()) setenv("TMPDIR", temporary.c_str(), 1);
  OfferToKernel();
  _exit(Exec(argv));
}

void ForwardSignals() {
  struct sigaction action{};
  action.sa_handler = Forward;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
}

// The running compiler, under the eyes of the governor.
class Watch {
 public:
  Watch(pid_t child, int errors, Admission* admission, Outcome* outcome)
      : child_(child), errors_(errors), admission_(admission), outcome_(outcome) {}

  // Returns when the compiler has ended; it is not reaped yet.
  void UntilEnd() {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, child_, 0));
    int pause_ms = kFirstPauseMs;
    bool is_open = errors_ >= 0;
    while (true) {
      pollfd files[3] = {{is_open ? errors_ : -1, POLLIN, 0},
                         {handle, POLLIN, 0},
                         {admission_->socket(), POLLIN, 0}};
      const int ready = poll(files, 3, pause_ms);
      if (ready == 0) {
        Sample();
        pause_ms = std::min(2 * pause_ms, kLastPauseMs);
      }
      if (is_open && files[0].revents != 0) is_open = Drain(errors_, outcome_);
      if (files[2].revents != 0) Obey();
      if (HasEnded()) break;
    }
    // What is still in the pipe; a daemon that holds it open is not waited for.
    pollfd rest = {errors_, POLLIN, 0};
    while (is_open && poll(&rest, 1, 0) > 0) is_open = Drain(errors_, outcome_);
    if (handle >= 0) close(handle);
    Resume();
    outcome_->peak_bytes = meter_.peak_bytes();
    outcome_->byte_seconds = meter_.byte_seconds();
    outcome_->samples = meter_.points();
  }

 private:
  double Elapsed() const { return Now(CLOCK_MONOTONIC) - start_; }

  void Sample() {
    const uint64_t bytes = TreeBytes(child_);
    meter_.Add(Elapsed(), bytes);
    admission_->Tell(bytes, Elapsed());
  }

  bool HasEnded() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  void Obey() {
    for (Order order = admission_->Next(); order != Order::kNone; order = admission_->Next()) {
      switch (order) {
        case Order::kPause:
          kill(-child_, SIGSTOP);
          if (paused_since_ < 0) paused_since_ = Elapsed();
          break;
        case Order::kContinue:
          kill(-child_, SIGCONT);
          Resume();
          break;
        case Order::kKill:
        case Order::kTooBig:
          outcome_->cut = order == Order::kKill ? Cut::kGovernor : Cut::kCap;
          kill(-child_, SIGKILL);
          break;
        case Order::kStart:
        case Order::kGiveUp:
        case Order::kNone:
          break;
      }
    }
  }

  void Resume() {
    if (paused_since_ >= 0) outcome_->paused_seconds += Elapsed() - paused_since_;
    paused_since_ = -1;
  }

  pid_t child_;
  int errors_;
  Admission* admission_;
  Outcome* outcome_;
  Meter meter_;
  double start_ = Now(CLOCK_MONOTONIC);
  double paused_since_ = -1;
};

}  // namespace

int Exec(const Args& argv) {
  std::vector<char*> pointers = Pointers(argv);
  execvp(pointers[0], pointers.data());
  std::fprintf(stderr, "bk-launch: cannot run %s: %s\n", pointers[0], std::strerror(errno));
  return 127;
}

void Release(const Outcome& outcome) {
  WriteAll(STDERR_FILENO, outcome.stderr_held.data(), outcome.stderr_held.size());
}

const char* Name(Cut cut) {
  switch (cut) {
    case Cut::kNone:
      return "";
    case Cut::kGovernor:
      return "governor";
    case Cut::kKernel:
      return "kernel";
    case Cut::kCap:
      return "cap";
  }
  return "";
}

Outcome Run(const Args& argv, const std::string& temporary, Admission* admission) {
  Outcome outcome;
  int errors[2] = {-1, -1};
  if (pipe2(errors, O_CLOEXEC) != 0) errors[0] = errors[1] = -1;
  outcome.start_seconds = Now(CLOCK_REALTIME);
  const double start = Now(CLOCK_MONOTONIC);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    std::fprintf(stderr, "bk-launch: cannot start a process: %s\n", std::strerror(errno));
    outcome.status = 126;
    return outcome;
  }
  if (child == 0) Child(argv, temporary, parent, errors[1]);
  setpgid(child, child);
  group = child;
  ForwardSignals();
  if (errors[1] >= 0) close(errors[1]);
  admission->Began();
  Watch(child, errors[0], admission, &outcome).UntilEnd();
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  group = 0;
  if (errors[0] >= 0) close(errors[0]);
  outcome.wall_seconds = Now(CLOCK_MONOTONIC) - start;
  outcome.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  // The kernel's own figure: of the largest single process, but seen without gaps.
  outcome.peak_bytes =
      std::max(outcome.peak_bytes, static_cast<uint64_t>(usage.ru_maxrss) * uint64_t{1024});
  if (WIFSIGNALED(status)) {
    outcome.status = 128 + WTERMSIG(status);
    kill(-child, SIGKILL);  // what the compiler had started must not outlive it
  } else {
    outcome.status = WEXITSTATUS(status);
  }
  if (outcome.status == 0) outcome.cut = Cut::kNone;  // it was quicker than the order
  if (outcome.cut == Cut::kNone && WasKilled(outcome.status, outcome.stderr_tail)) {
    outcome.cut = Cut::kKernel;
  }
  if (outcome.stderr_tail.size() > kTailBytes) {
    outcome.stderr_tail.erase(0, outcome.stderr_tail.size() - kTailBytes);
  }
  return outcome;
}

}  // namespace bk
