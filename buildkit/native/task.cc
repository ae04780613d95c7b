#include "task.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "admit.h"
#include "process.h"
#include "record.h"
#include "scratch.h"
#include "stable.h"

namespace bk {
namespace {

// How often a call is tried that the kernel kills.
constexpr int kAttempts = 3;

double Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Whether a call that was cut short runs again. The governor sees to it that a call which it ended
// twice runs alone; the kernel may have its reasons three times.
bool IsRepeated(Cut cut, int attempt) {
  return cut == Cut::kGovernor || (cut == Cut::kKernel && attempt < kAttempts);
}

}  // namespace

std::string RenderTask(const Task& task) {
  std::string text;
  const auto add = [&](const std::string& word) { text.append(word).push_back('\0'); };
  for (const std::string& word :
       {task.compiler, std::to_string(static_cast<int>(task.decision)), task.flags, task.objects,
        task.depfile, std::to_string(task.search.size())}) {
    add(word);
  }
  for (const std::string& folder : task.search) add(folder);
  for (const std::string& arg : task.args) add(arg);
  return text;
}

std::optional<Task> ParseTask(std::string_view text) {
  std::vector<std::string> words;
  for (size_t end; (end = text.find('\0')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    words.emplace_back(text.substr(0, end));
  }
  constexpr size_t kHead = 6;
  if (words.size() < kHead) return std::nullopt;
  const size_t folders = static_cast<size_t>(std::atol(words[kHead - 1].c_str()));
  if (words.size() < kHead + folders) return std::nullopt;
  Task task;
  task.compiler = words[0];
  task.decision = static_cast<Decision>(std::atoi(words[1].c_str()));
  task.flags = words[2];
  task.objects = words[3];
  task.depfile = words[4];
  const auto args = words.begin() + static_cast<std::ptrdiff_t>(kHead + folders);
  task.search.assign(words.begin() + kHead, args);
  task.args.assign(args, words.end());
  task.call = Describe(task.compiler, task.args);
  return task;
}

std::string Directory() {
  char folder[4096];
  return getcwd(folder, sizeof folder) != nullptr ? folder : "";
}

bool IsTryOut(const Call& call) {
  const std::string where = Directory();
  for (const std::string* text : {&where, &call.source}) {
    if (text->find("CMakeScratch") != std::string::npos) return true;
    if (text->find("CMakeTmp") != std::string::npos) return true;
    if (text->find("CompilerId") != std::string::npos) return true;
  }
  return false;
}

Args StableArgs(const Config& config, const Task& task, const std::string& scratch) {
  const std::optional<Args> plain = ExpandResponses(task.args, task.call.is_nvcc);
  Args stable = StableFlags(config.maps, task.call, plain.value_or(task.args), Directory(),
                            IsTryOut(task.call) ? "" : scratch);
  stable.insert(stable.end(), task.args.begin(), task.args.end());
  return stable;
}

int Govern(const Config& config, const Task& task) {
  const Call& call = task.call;
  Subject subject{call, std::string(BaseName(task.compiler)), task.flags, task.decision,
                  task.objects};
  // Questions such as `nvcc --version`, and CMake's try-outs, cost nothing.
  const bool is_governed = !IsTryOut(call) && (!call.source.empty() || !call.output.empty());
  const int passes = call.is_nvcc ? PassesAtOnce(task.args) : 1;
  Admission admission(is_governed ? config.governor : "", config.slots, config.path,
                      RenderAsk(config.build, call, subject.flags, passes));
  while (true) {
    const double asked = Now();
    if (!admission.Wait()) {
      std::fprintf(stderr, "bk-launch: not started, because the build has failed\n");
      return 1;
    }
    subject.waited_seconds = Now() - asked;
    const Scratch scratch;
    Args argv = StableArgs(config, task, scratch.path());
    argv.insert(argv.begin(), task.compiler);
    const Outcome outcome = Run(argv, scratch.path(), &admission);
    if (!config.records.empty()) AppendRecord(config.records, RenderRecord(subject, outcome));
    if (is_governed && IsRepeated(outcome.cut, subject.attempt)) {
      admission.Out(Name(outcome.cut), outcome.peak_bytes);
      ++subject.attempt;
      continue;
    }
    Release(outcome);
    if (outcome.cut == Cut::kCap) {
      std::fprintf(stderr, "bk-launch: %s alone needs more memory than the build may use\n",
                   call.source.empty() ? call.output.c_str() : call.source.c_str());
    }
    admission.End(outcome.status, outcome.peak_bytes,
                  outcome.wall_seconds - outcome.paused_seconds);
    return outcome.status;
  }
}

}  // namespace bk
