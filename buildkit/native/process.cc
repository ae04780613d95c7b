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

#include "usage.h"

namespace bk {
namespace {

// As much of a compiler's messages as a person wants to see in one error.
constexpr size_t kTailBytes = 8192;

// Milliseconds between samples of memory: dense while a short call runs, then cheap.
constexpr int kFirstPauseMs = 4;
constexpr int kLastPauseMs = 50;

volatile sig_atomic_t group = 0;

void Forward(int number) {
  if (group > 0) kill(-group, number);
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

// Passes on what the compiler wrote; false at the end of the pipe.
bool Drain(int pipe, std::string* tail) {
  char block[16384];
  const ssize_t count = read(pipe, block, sizeof block);
  if (count == 0) return false;
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  WriteAll(STDERR_FILENO, block, static_cast<size_t>(count));
  tail->append(block, static_cast<size_t>(count));
  if (tail->size() > 2 * kTailBytes) tail->erase(0, tail->size() - kTailBytes);
  return true;
}

[[noreturn]] void Child(const Args& argv, pid_t parent, int errors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
  setenv("BK_LAUNCH_NESTED", "1", 1);
  _exit(Exec(argv));
}

void ForwardSignals() {
  struct sigaction action{};
  action.sa_handler = Forward;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
}

// Waits until the child has ended, sampling its tree; returns the peak.
uint64_t Watch(pid_t child, int errors, std::string* tail) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  uint64_t peak = 0;
  int pause_ms = kFirstPauseMs;
  bool is_open = errors >= 0;
  while (true) {
    pollfd files[2] = {{is_open ? errors : -1, POLLIN, 0}, {handle, POLLIN, 0}};
    const int ready = poll(files, 2, pause_ms);
    if (ready == 0) {
      peak = std::max(peak, TreeBytes(child));
      pause_ms = std::min(2 * pause_ms, kLastPauseMs);
    }
    if (is_open && files[0].revents != 0) is_open = Drain(errors, tail);
    siginfo_t info{};
    const bool has_ended =
        waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == child;
    if (has_ended) break;
  }
  // What is still in the pipe; a daemon that holds it open is not waited for.
  pollfd rest = {errors, POLLIN, 0};
  while (is_open && poll(&rest, 1, 0) > 0) is_open = Drain(errors, tail);
  if (handle >= 0) close(handle);
  return peak;
}

}  // namespace

int Exec(const Args& argv) {
  std::vector<char*> pointers = Pointers(argv);
  execvp(pointers[0], pointers.data());
  std::fprintf(stderr, "bk-launch: cannot run %s: %s\n", pointers[0], std::strerror(errno));
  return 127;
}

Outcome Run(const Args& argv) {
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
  if (child == 0) Child(argv, parent, errors[1]);
  setpgid(child, child);
  group = child;
  ForwardSignals();
  if (errors[1] >= 0) close(errors[1]);
  outcome.peak_bytes = Watch(child, errors[0], &outcome.stderr_tail);
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
  if (outcome.stderr_tail.size() > kTailBytes) {
    outcome.stderr_tail.erase(0, outcome.stderr_tail.size() - kTailBytes);
  }
  return outcome;
}

}  // namespace bk
