// bk-launch: stands before a compiler, narrows its GPU targets, replaces flags, measures the call.
//
// Called as `bk-launch COMPILER ARGS...` by CMake, or under a compiler's name by a link in the
// build's shim directory. BK_LAUNCH_CONFIG names what to do; without it the compiler just runs.
// A compiler that a launched compiler calls (nvcc calls gcc) is not launched again. Under the names
// of ninja and make it only sets how many jobs they offer at the same time.
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "admit.h"
#include "config.h"
#include "process.h"
#include "record.h"
#include "scratch.h"
#include "stable.h"

namespace {

// How often a call is tried that the kernel kills.
constexpr int kAttempts = 3;

constexpr char kHelp[] =
    "Usage: bk-launch COMPILER ARGS...        run a compiler as BK_LAUNCH_CONFIG says\n"
    "       bk-launch --explain -- COMPILER ARGS...   show what would become of the call\n";

struct Rewritten {
  bk::Args args;
  bk::Call call;
  bk::Decision decision = bk::Decision::kPassed;
};

std::string Directory() {
  char folder[4096];
  return getcwd(folder, sizeof folder) != nullptr ? folder : "";
}

// CMake's own try-outs of a compiler are no translation units of the project.
bool IsTryOut(const bk::Call& call) {
  const std::string where = Directory();
  for (const std::string* text : {&where, &call.source}) {
    if (text->find("CMakeScratch") != std::string::npos) return true;
    if (text->find("CMakeTmp") != std::string::npos) return true;
    if (text->find("CompilerId") != std::string::npos) return true;
  }
  return false;
}

Rewritten Rewrite(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  Rewritten result{given, bk::Describe(compiler, given)};
  const bool is_nvcc = result.call.is_nvcc;
  // A response file is taken apart only if something in it changes.
  std::optional<bk::Args> expanded = bk::ExpandResponses(given, is_nvcc);
  bk::Args args = expanded ? *expanded : given;
  if (expanded) result.call = bk::Describe(compiler, args);
  if (IsTryOut(result.call)) {
    result.call.source.clear();
    return result;
  }
  const bk::Args before = args;
  bk::ApplyRules(config.rules, result.call.language, &args);
  if (is_nvcc) {
    const bool compiles_cuda =
        !result.call.source.empty() && result.call.language == bk::Language::kCuda;
    result.decision = bk::Pin(config.target, compiles_cuda, &args);
    if (result.decision == bk::Decision::kPinned) bk::LimitThreads(&args);
  } else if (!result.call.source.empty()) {
    result.decision = bk::Decision::kNone;
  }
  if (!expanded || args != before) result.args = args;
  return result;
}

// The arguments that the compiler gets: after those that keep our own place out of its output.
bk::Args Stable(const bk::Config& config, const Rewritten& rewritten, const std::string& scratch) {
  const bk::Args& args = rewritten.args;
  const std::optional<bk::Args> plain = bk::ExpandResponses(args, rewritten.call.is_nvcc);
  bk::Args stable = bk::StableFlags(config.maps, rewritten.call, plain.value_or(args), Directory(),
                                    IsTryOut(rewritten.call) ? "" : scratch);
  stable.insert(stable.end(), args.begin(), args.end());
  return stable;
}

int Explain(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  const Rewritten rewritten = Rewrite(config, compiler, given);
  std::printf("%s\n", bk::Name(rewritten.decision));
  for (const std::string& arg : given) std::printf("- %s\n", arg.c_str());
  for (const std::string& arg : Stable(config, rewritten, "TMPDIR")) {
    std::printf("+ %s\n", arg.c_str());
  }
  return 0;
}

double Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Whether a call that was cut short runs again. The governor sees to it that a call which it ended
// twice runs alone; the kernel may have its reasons three times.
bool IsRepeated(bk::Cut cut, int attempt) {
  return cut == bk::Cut::kGovernor || (cut == bk::Cut::kKernel && attempt < kAttempts);
}

int Launch(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  const Rewritten rewritten = Rewrite(config, compiler, given);
  const bk::Call& call = rewritten.call;
  bk::Subject subject{call, std::string(bk::BaseName(compiler)),
                      bk::FlagsDigest(rewritten.args, call), rewritten.decision};
  // Questions such as `nvcc --version`, and CMake's try-outs, cost nothing.
  const bool is_governed = !IsTryOut(call) && (!call.source.empty() || !call.output.empty());
  const int passes = call.is_nvcc ? bk::PassesAtOnce(rewritten.args) : 1;
  bk::Admission admission(is_governed ? config.governor : "", config.slots, config.path,
                          bk::RenderAsk(config.build, call, subject.flags, passes));
  while (true) {
    const double asked = Now();
    if (!admission.Wait()) {
      std::fprintf(stderr, "bk-launch: not started, because the build has failed\n");
      return 1;
    }
    subject.waited_seconds = Now() - asked;
    const bk::Scratch scratch;
    bk::Args argv = Stable(config, rewritten, scratch.path());
    argv.insert(argv.begin(), compiler);
    const bk::Outcome outcome = bk::Run(argv, scratch.path(), &admission);
    if (!config.records.empty()) {
      bk::AppendRecord(config.records, bk::RenderRecord(subject, outcome));
    }
    if (is_governed && IsRepeated(outcome.cut, subject.attempt)) {
      admission.Out(bk::Name(outcome.cut), outcome.peak_bytes);
      ++subject.attempt;
      continue;
    }
    bk::Release(outcome);
    if (outcome.cut == bk::Cut::kCap) {
      std::fprintf(stderr, "bk-launch: %s alone needs more memory than the build may use\n",
                   call.source.empty() ? call.output.c_str() : call.source.c_str());
    }
    admission.End(outcome.status, outcome.peak_bytes,
                  outcome.wall_seconds - outcome.paused_seconds);
    return outcome.status;
  }
}

// Stands before ninja or make: `-j` is the governor's business, whatever a project has computed.
int RunBuildTool(const bk::Config& config, const std::string& tool, const bk::Args& given) {
  bk::Args argv = bk::WithJobs(given, config.jobs);
  argv.insert(argv.begin(), tool);
  return bk::Exec(argv);
}

}  // namespace

int main(int argc, char** argv) {
  bk::Args args(argv + 1, argv + argc);
  const char* named = std::getenv("BK_LAUNCH_CONFIG");
  const std::optional<bk::Config> config =
      named != nullptr && *named != '\0' ? bk::ReadConfig(named) : std::nullopt;
  std::string compiler;
  const std::string_view self = bk::BaseName(argv[0]);
  bool explains = false;
  if (self != "bk-launch") {
    compiler = config ? config->Tool(self) : "";
    if (compiler.empty()) {
      std::fprintf(stderr, "bk-launch: BK_LAUNCH_CONFIG (%s) names no compiler for %s\n",
                   named != nullptr ? named : "not set", argv[0]);
      return 127;
    }
  } else {
    explains = !args.empty() && args[0] == "--explain";
    if (explains) args.erase(args.begin());
    if (!args.empty() && args[0] == "--") args.erase(args.begin());
    if (args.empty() || args[0] == "--help" || args[0] == "-h") {
      std::fputs(kHelp, args.empty() ? stderr : stdout);
      return args.empty() ? 2 : 0;
    }
    compiler = args[0];
    args.erase(args.begin());
  }
  if (explains) return Explain(config.value_or(bk::Config{}), compiler, args);
  const bool is_nested = std::getenv("BK_LAUNCH_NESTED") != nullptr;
  if (config && (self == "ninja" || self == "make")) return RunBuildTool(*config, compiler, args);
  if (config && !is_nested) return Launch(*config, compiler, args);
  args.insert(args.begin(), compiler);
  return bk::Exec(args);
}
