#include "cached.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cacheable.h"
#include "files.h"
#include "presence.h"
#include "process.h"
#include "record.h"
#include "scratch.h"

extern char** environ;

namespace bk {
namespace {

// Begins the line that bk-admit adds to what a compiler says; the cache keeps it with the object.
constexpr char kMark[] = "bk-admit: headers ";

volatile sig_atomic_t engine = 0;

void Forward(int number) {
  if (engine > 0) kill(engine, number);
}

double Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Environment ReadEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

// Files of one call of the cache, in a directory that goes with it.
struct Files {
  explicit Files(const std::string& folder)
      : task(folder + "/task"),
        ran(task + ".ran"),
        out(folder + "/out"),
        errors(folder + "/err"),
        spare(folder + "/headers.d") {}
  std::string task;
  std::string ran;  // there when bk-admit has begun
  std::string out;
  std::string errors;
  std::string spare;
};

[[noreturn]] void Child(const Args& argv, const Environment& environment, const Files& files,
                        pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);
  const int out = open(files.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = open(files.errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (out < 0 || errors < 0) _exit(127);
  dup2(out, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  clearenv();
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  _exit(Exec(argv));
}

// Runs the cache to its end and fills what a record tells of it.
Outcome RunEngine(const Args& argv, const Environment& environment, const Files& files) {
  Outcome outcome;
  outcome.start_seconds = Now(CLOCK_REALTIME);
  const double start = Now(CLOCK_MONOTONIC);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    outcome.status = 126;
    return outcome;
  }
  if (child == 0) Child(argv, environment, files, parent);
  engine = child;
  struct sigaction action{};
  action.sa_handler = Forward;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  engine = 0;
  outcome.wall_seconds = Now(CLOCK_MONOTONIC) - start;
  outcome.cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                        static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  outcome.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

// Takes bk-admit's line out of what a compiler has said, and returns what it tells.
std::string TakeMark(std::string* said) {
  const size_t at = said->rfind(kMark);
  if (at == std::string::npos) return "";
  const size_t begin = at + sizeof kMark - 1;
  const size_t end = said->find('\n', begin);
  if (end == std::string::npos) return "";
  std::string word = said->substr(begin, end - begin);
  said->erase(at, end + 1 - at);
  return word;
}

void Say(const std::string& out, const Files& files) {
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  const std::string errors = ReadFile(files.errors).value_or("");
  std::fwrite(errors.data(), 1, errors.size(), stderr);
}

// One call of the cache. `presence` is empty when bk-admit has run.
struct Answer {
  Outcome outcome;
  bool is_hit = false;
  bool has_run = false;
  std::string said;
  std::string presence;
};

Answer Ask(const Args& argv, const Environment& environment, const Files& files) {
  Answer answer;
  answer.outcome = RunEngine(argv, environment, files);
  answer.said = ReadFile(files.out).value_or("");
  answer.presence = TakeMark(&answer.said);
  answer.has_run = access(files.ran.c_str(), F_OK) == 0;
  answer.is_hit = !answer.has_run && answer.outcome.status == 0;
  return answer;
}

// The environment that the cache gets.
Environment EngineEnvironment(const Config& config, Environment environment,
                              const std::string& identity, const Files& files) {
  const Engine& cache = config.engine;
  for (auto entry = environment.begin(); entry != environment.end();) {
    entry = StartsWith(entry->first, cache.reserved) ? environment.erase(entry) : ++entry;
  }
  for (const auto& [name, value] : cache.variables) environment[name] = value;
  environment[cache.identity] = cache.prefix + identity;
  environment[kTaskVariable] = files.task;
  return environment;
}

}  // namespace

std::optional<int> RunCached(const Config& config, Task* task) {
  const Scratch scratch;
  const Files files(scratch.path());
  const Environment environment = ReadEnvironment();
  const Cacheable cacheable =
      Judge(config, task->compiler, task->args, task->call, environment, files.spare);
  if (!cacheable.refusal.empty() || scratch.path().empty()) {
    task->objects = "skipped: " + cacheable.refusal;
    return std::nullopt;
  }
  Task cached = *task;
  cached.args = cacheable.args;
  cached.depfile = cacheable.depfile;
  cached.search = cacheable.search;
  cached.objects = "miss";
  const std::string directory = Directory();
  if (!WriteFile(files.task, RenderTask(cached))) return std::nullopt;
  Environment told = EngineEnvironment(
      config, environment, Identity(config, cacheable, task->call, environment, directory), files);
  Args argv = cacheable.args;
  argv.insert(argv.begin(), {config.engine.program, task->compiler});
  Answer answer = Ask(argv, told, files);
  if (answer.is_hit && (answer.presence.empty() ||
                        answer.presence != Presence(cached.depfile, cached.search, cached.args,
                                                    config.maps, directory))) {
    // Another header would be found now than when the object was made.
    told[config.engine.afresh] = "1";
    answer = Ask(argv, told, files);
    answer.is_hit = false;
  }
  if (!answer.has_run && !answer.is_hit) {
    task->objects = "skipped: the cache ended with status " + std::to_string(answer.outcome.status);
    return std::nullopt;
  }
  if (answer.is_hit && !config.records.empty()) {
    const Subject subject{task->call, std::string(BaseName(task->compiler)), task->flags,
                          task->decision, "hit"};
    AppendRecord(config.records, RenderRecord(subject, answer.outcome));
  }
  Say(answer.said, files);
  return answer.outcome.status;
}

int Admit(const Config& config, const char* task_file) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::optional<std::string> text = ReadFile(task_file);
  const std::optional<Task> task = text ? ParseTask(*text) : std::nullopt;
  if (!task || !WriteFile(std::string(task_file) + ".ran", "")) {
    std::fprintf(stderr, "bk-admit: cannot read the task in %s\n", task_file);
    return 127;
  }
  unsetenv(kTaskVariable);
  for (const auto& [name, value] : ReadEnvironment()) {
    if (StartsWith(name, config.engine.reserved)) unsetenv(name.c_str());
  }
  const int status = Govern(config, *task);
  if (status != 0) return status;
  const std::string presence =
      Presence(task->depfile, task->search, task->args, config.maps, Directory());
  std::printf("%s%s\n", kMark, presence.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace bk
