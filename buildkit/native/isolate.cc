// bk-isolate: runs a command without network, or in a process namespace that ends with it.
//
// As root it makes the namespaces directly, else inside a user namespace of its own. The network
// namespace has its loopback up; file-system sockets work across it. The process namespace has a
// private /proc, and its first process reaps, forwards signals and passes the status on: when
// bk-isolate dies, however it dies, the kernel ends everything in it. Without a process namespace
// bk-isolate inherits orphans and ends them itself; only its own SIGKILL could leave some.
// --cgroup enters a control group first, by its cgroup.procs file.
// Source: namespaces(7), user_namespaces(7), pid_namespaces(7).
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

// Exit status of env, nohup and their like for "could not do my own part".
constexpr int kUnable = 125;

constexpr char kHelp[] =
    "Usage: bk-isolate [--no-network] [--pid] [--best-effort] [--cgroup FILE] -- COMMAND...\n"
    "       bk-isolate --probe     print what is possible here: network, pid\n";

struct Wish {
  bool network = false;
  bool pid = false;
};

volatile sig_atomic_t child_pid = 0;

void Forward(int number) {
  if (child_pid > 0) kill(child_pid, number);
}

void ForwardSignals() {
  struct sigaction action{};
  action.sa_handler = Forward;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
}

bool WriteFile(const char* path, const std::string& text) {
  FILE* file = std::fopen(path, "w");
  if (file == nullptr) return false;
  const bool is_written = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && is_written;
}

bool RaiseLoopback() {
  const int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return false;
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  bool is_up = ioctl(handle, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags |= IFF_UP;
  is_up = is_up && ioctl(handle, SIOCSIFFLAGS, &request) == 0;
  close(handle);
  return is_up;
}

// Enters the namespaces; returns what failed, or null.
const char* Enter(const Wish& wish) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  int flags = (wish.network ? CLONE_NEWNET : 0) | (wish.pid ? CLONE_NEWPID | CLONE_NEWNS : 0);
  if (flags == 0) return nullptr;
  if (unshare(flags) != 0) {
    if (unshare(flags | CLONE_NEWUSER) != 0) return "unshare";
    const std::string user = std::to_string(uid), own_group = std::to_string(gid);
    WriteFile("/proc/self/setgroups", "deny");
    if (!WriteFile("/proc/self/uid_map", user + " " + user + " 1")) return "uid_map";
    if (!WriteFile("/proc/self/gid_map", own_group + " " + own_group + " 1")) return "gid_map";
  }
  if (wish.network && !RaiseLoopback()) return "loopback";
  return nullptr;
}

int StatusOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (true) {
    const pid_t ended = wait(&status);
    if (ended == child) return StatusOf(status);
    if (ended < 0 && errno != EINTR) return kUnable;
  }
}

int Exec(char** argv) {
  execvp(argv[0], argv);
  std::fprintf(stderr, "bk-isolate: cannot run %s: %s\n", argv[0], std::strerror(errno));
  return 127;
}

// The first process of the namespace. `argv` null: only see whether /proc can be mounted.
int Init(char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    if (argv != nullptr) std::fprintf(stderr, "bk-isolate: /proc: %s\n", std::strerror(errno));
    return kUnable;
  }
  if (argv == nullptr) return 0;
  const pid_t command = fork();
  if (command < 0) return kUnable;
  if (command == 0) _exit(Exec(argv));
  child_pid = command;
  ForwardSignals();
  return WaitFor(command);
}

// Kills what has come to this process as its children, until nothing is left.
void KillDescendants() {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
  for (int round = 0; round < 500; ++round) {
    FILE* file = std::fopen(path, "r");
    if (file == nullptr) return;
    int pid = 0, count = 0;
    while (std::fscanf(file, "%d", &pid) == 1) {
      kill(pid, SIGKILL);
      ++count;
    }
    std::fclose(file);
    if (count == 0) return;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    usleep(2000);  // children of the dead become ours a moment later
  }
}

// The poor man's process namespace: this process inherits every orphan below it, and ends them all
// when the command ends or when its own parent dies. Source: prctl(2), PR_SET_CHILD_SUBREAPER.
int Supervise(char** argv) {
  const pid_t parent = getppid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ForwardSignals();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const pid_t command = fork();
  if (command < 0) return kUnable;
  if (command == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(Exec(argv));
  }
  child_pid = command;
  int status = 0, result = 128 + SIGKILL;
  while (getppid() == parent) {
    const pid_t ended = wait(&status);
    if (ended == command) {
      result = StatusOf(status);
      break;
    }
    if (ended < 0 && errno != EINTR) break;
  }
  KillDescendants();
  return result;
}

int RunIn(const Wish& wish, char** argv) {
  if (const char* failed = Enter(wish)) {
    if (argv != nullptr) {
      std::fprintf(stderr, "bk-isolate: %s: %s\n", failed, std::strerror(errno));
    }
    return kUnable;
  }
  if (!wish.pid) return argv == nullptr ? 0 : Supervise(argv);
  const pid_t init = fork();
  if (init < 0) return kUnable;
  if (init == 0) _exit(Init(argv));
  child_pid = init;
  ForwardSignals();
  return WaitFor(init);
}

// Tries it in a process that ends at once.
bool IsPossible(const Wish& wish) {
  const pid_t child = fork();
  if (child == 0) _exit(RunIn(wish, nullptr));
  return child > 0 && WaitFor(child) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  bool is_best_effort = false;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string arg = argv[i];
    if (arg == "--") {
      ++i;
      break;
    }
    if (arg == "--no-network") {
      wish.network = true;
    } else if (arg == "--pid") {
      wish.pid = true;
    } else if (arg == "--best-effort") {
      is_best_effort = true;
    } else if (arg == "--cgroup" && i + 1 < argc) {
      // 0 stands for the process that writes. Source: cgroups(7).
      if (!WriteFile(argv[++i], "0")) {
        std::fprintf(stderr, "bk-isolate: %s: %s\n", argv[i], std::strerror(errno));
        return kUnable;
      }
    } else if (arg == "--probe") {
      if (IsPossible({true, false})) std::puts("network");
      if (IsPossible({false, true})) std::puts("pid");
      return 0;
    } else {
      std::fputs(kHelp, arg == "--help" ? stdout : stderr);
      return arg == "--help" ? 0 : 2;
    }
  }
  if (i >= argc) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (is_best_effort) {
    wish.network = wish.network && IsPossible({true, false});
    wish.pid = wish.pid && IsPossible({wish.network, true});
  }
  return RunIn(wish, argv + i);
}
