// bk-launch: stands before a compiler, narrows its GPU targets, replaces flags, measures the call.
//
// Called as `bk-launch COMPILER ARGS...` by CMake, or under a compiler's name by a link in the
// build's shim directory. BK_LAUNCH_CONFIG names what to do; without it the compiler just runs.
// A compiler that a launched compiler calls (nvcc calls gcc) is not launched again. Under the names
// of ninja and make it only sets how many jobs they offer at the same time. With a cache of objects
// the call goes to that first, and only what it does not have to bk-admit and the compiler.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "cached.h"
#include "config.h"
#include "process.h"
#include "record.h"
#include "task.h"

namespace {

constexpr char kHelp[] =
    "Usage: bk-launch COMPILER ARGS...        run a compiler as BK_LAUNCH_CONFIG says\n"
    "       bk-launch --explain -- COMPILER ARGS...   show what would become of the call\n";

// The compiler behind one of the build's links to this program; any other path as it is.
std::string BehindLink(const bk::Config& config, const std::string& path) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::canonical("/proc/self/exe", error);
  if (error || std::filesystem::canonical(path, error) != self || error) return path;
  const std::string tool = config.Tool(bk::BaseName(path));
  return tool.empty() ? path : tool;
}

// torch hands CC, such a link, to nvcc as its host compiler. nvcc would end up at the compiler
// behind it, too, but the cache of objects could not tell which one that is.
void NameHostCompiler(const bk::Config& config, bk::Args* args) {
  for (size_t i = 0; i < args->size(); ++i) {
    std::string& arg = (*args)[i];
    for (const std::string option : {"-ccbin", "--compiler-bindir"}) {
      if (arg == option && i + 1 < args->size()) {
        (*args)[i + 1] = BehindLink(config, (*args)[i + 1]);
      } else if (arg.rfind(option + "=", 0) == 0) {
        arg = option + "=" + BehindLink(config, arg.substr(option.size() + 1));
      }
    }
  }
}

bk::Task Rewrite(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  bk::Task task;
  task.compiler = compiler;
  task.args = given;
  task.call = bk::Describe(compiler, given);
  const bool is_nvcc = task.call.is_nvcc;
  // A response file is taken apart only if something in it changes.
  std::optional<bk::Args> expanded = bk::ExpandResponses(given, is_nvcc);
  bk::Args args = expanded ? *expanded : given;
  if (expanded) task.call = bk::Describe(compiler, args);
  if (bk::IsTryOut(task.call)) {
    task.call.source.clear();
    return task;
  }
  const bk::Args before = args;
  bk::ApplyRules(config.rules, task.call.language, &args);
  if (is_nvcc) {
    NameHostCompiler(config, &args);
    const bool compiles_cuda =
        !task.call.source.empty() && task.call.language == bk::Language::kCuda;
    task.decision = bk::Pin(config.target, compiles_cuda, &args);
    if (task.decision == bk::Decision::kPinned) bk::LimitThreads(&args);
  } else if (!task.call.source.empty()) {
    task.decision = bk::Decision::kNone;
  }
  if (!expanded || args != before) task.args = args;
  return task;
}

int Explain(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  const bk::Task task = Rewrite(config, compiler, given);
  std::printf("%s\n", bk::Name(task.decision));
  for (const std::string& arg : given) std::printf("- %s\n", arg.c_str());
  for (const std::string& arg : bk::StableArgs(config, task, "TMPDIR")) {
    std::printf("+ %s\n", arg.c_str());
  }
  return 0;
}

int Launch(const bk::Config& config, const std::string& compiler, const bk::Args& given) {
  bk::Task task = Rewrite(config, compiler, given);
  task.flags = bk::FlagsDigest(task.args, task.call);
  if (!config.engine.program.empty() && !task.call.source.empty()) {
    const std::optional<int> status = bk::RunCached(config, &task);
    if (status) return *status;
  }
  return bk::Govern(config, task);
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
