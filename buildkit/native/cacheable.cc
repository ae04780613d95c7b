#include "cacheable.h"

#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <system_error>

#include "stable.h"

namespace bk {
namespace {

// Raised when the same identity would stand for another object.
constexpr char kFormat[] = "1";

// Options of GCC and nvcc that read what no dependency file names, write more than the object,
// ask the machine, or hide where headers are looked for; by their start, after the dashes.
// Source: GCC manual, "Option Summary"; nvcc manual, "Command Option Description".
constexpr const char* kRefused[] = {"fplugin",
                                    "fprofile",
                                    "fbranch-probabilities",
                                    "fauto-profile",
                                    "fdump",
                                    "fmodule",
                                    "fstack-usage",
                                    "fcallgraph-info",
                                    "ftest-coverage",
                                    "fopt-info",
                                    "fsave-optimization-record",
                                    "coverage",
                                    "frecord-gcc-switches",
                                    "grecord-gcc-switches",
                                    "gsplit-dwarf",
                                    "specs",
                                    "wrapper",
                                    "save-temps",
                                    "keep",
                                    "keep-dir",
                                    "sysroot",
                                    "isysroot",
                                    "iprefix",
                                    "iwithprefix",
                                    "imultilib",
                                    "iplugindir",
                                    "MG",
                                    "Wp,",
                                    "Wa,",
                                    "Xpreprocessor",
                                    "Xassembler",
                                    "no-canonical",
                                    "time",
                                    "fdevice-time-trace",
                                    "run",
                                    "dryrun",
                                    "dry-run",
                                    "pch",
                                    "create-pch",
                                    "use-pch",
                                    "pch-dir",
                                    "objtemp",
                                    "objdir-as-tempdir",
                                    "ptx",
                                    "cubin",
                                    "fatbin",
                                    "optix-ir",
                                    "ltoir",
                                    "lib",
                                    "dlink",
                                    "device-link",
                                    "link",
                                    "input-drive-prefix",
                                    "dependency-drive-prefix",
                                    "drive-prefix",
                                    "odir",
                                    "output-directory",
                                    "options-file",
                                    "optf",
                                    "cudafe-options-file",
                                    "cicc-options-file",
                                    "fdiagnostics-format",
                                    "fdiagnostics-add-output",
                                    "fdeps",
                                    "aux-info",
                                    "E",
                                    "S",
                                    "M",
                                    "MM",
                                    "preprocess",
                                    "dumpspecs",
                                    "libdevice-directory",
                                    "ldir",
                                    "target-directory",
                                    "tdir",
                                    "target-dir",
                                    "qpp-config",
                                    "config",
                                    "cuda-path",
                                    "generate-dependencies",
                                    "generate-nonsystem-dependencies"};

// These begin like one that is refused, and are harmless.
constexpr const char* kAllowed[] = {"generate-dependencies-with-compile",
                                    "generate-nonsystem-dependencies-with-compile"};

// What may be handed to the host compiler by -Xcompiler, by its start; the rest is refused.
constexpr const char* kHostAllowed[] = {"-f",       "-W",    "-w", "-D",   "-U",
                                        "-O",       "-m",    "-g", "-std", "-pedantic",
                                        "-pthread", "-ansi", "-p", "-Wno"};

// Variables that decide what compilers do, by their start or, with a `*` before it, by their end.
// Source: GCC manual, "Environment Variables"; nvcc manual, "NVCC Environment Variables"; what
// `nvcc --dryrun` of CUDA 13.0 says that it takes from the environment; ld.so(8).
constexpr const char* kVariables[] = {"NVCC",
                                      "NVVM",
                                      "CICC",
                                      "CUDA",
                                      "PTXAS",
                                      "FATBIN",
                                      "NVLINK",
                                      "GCC_",
                                      "COLLECT_",
                                      "LD_",
                                      "GLIBC_",
                                      "MALLOC_",
                                      "COMPILER_PATH",
                                      "CPATH",
                                      "C_INCLUDE_PATH",
                                      "CPLUS_INCLUDE_PATH",
                                      "LIBRARY_PATH",
                                      "LIBRARIES",
                                      "SOURCE_DATE_EPOCH",
                                      "LANG",
                                      "LC_",
                                      "TZ",
                                      "TOP",
                                      "*_FLAGS"};

// These would change what is looked at, in ways that are not followed.
constexpr const char* kRefusedVariables[] = {
    "INCLUDES",        "SYSTEM_INCLUDES", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
    "GCC_EXEC_PREFIX", "COMPILER_PATH",   "NVCC_CCBIN",          "LD_PRELOAD"};

std::string Get(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string_view Undashed(std::string_view arg) {
  if (StartsWith(arg, "--")) return arg.substr(2);
  return StartsWith(arg, "-") ? arg.substr(1) : std::string_view();
}

// `text` is `name`, or `name` with a value behind `=`.
bool IsOption(std::string_view text, std::string_view name) {
  return StartsWith(text, name) && (text.size() == name.size() || text[name.size()] == '=');
}

// Short names stand for themselves alone: `-M` is refused, `-MD` is not.
bool IsRefused(std::string_view name) {
  for (std::string_view allowed : kAllowed) {
    if (IsOption(name, allowed)) return false;
  }
  for (std::string_view refused : kRefused) {
    const bool is_whole = refused.size() <= 4 && refused.back() != ',';
    if (is_whole ? IsOption(name, refused) : StartsWith(name, refused)) return true;
  }
  return false;
}

// One option with a value: separate, joined by `=`, or, for one dash and `is_joined`, without.
struct Option {
  std::string value;
  size_t count = 0;  // arguments that it takes; 0: it is not this option
};

Option Match(const Args& args, size_t i, std::initializer_list<std::string_view> names,
             bool is_joined = false) {
  for (std::string_view name : names) {
    if (args[i] == name) {
      if (i + 1 >= args.size()) return Option{};
      return Option{args[i + 1], 2};
    }
    if (!StartsWith(args[i], name)) continue;
    const std::string_view rest = std::string_view(args[i]).substr(name.size());
    if (rest[0] == '=') return Option{std::string(rest.substr(1)), 1};
    if (is_joined) return Option{std::string(rest), 1};
  }
  return Option{};
}

std::string Real(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? "" : real.string();
}

// The program that a name means, as execvp finds it.
std::string Which(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) return name;
  std::string path = Get(environment, "PATH");
  for (const std::string& folder : Split(path, ':')) {
    std::error_code error;
    const std::string file = folder + "/" + name;
    if (std::filesystem::is_regular_file(file, error)) return file;
  }
  return "";
}

// The configuration's name for a compiler, or an empty string: its toolchain's digest says nothing
// of others.
std::string ToolOf(const Config& config, const std::string& program) {
  const std::string real = Real(program);
  if (real.empty()) return "";
  for (const auto& [name, path] : config.tools) {
    if (Real(path) == real) return name;
  }
  return "";
}

// Why a host compiler of nvcc is not one whose digest is known; empty if it is.
std::string JudgeHost(const Config& config, const Args& args, const Environment& environment) {
  std::string named;
  for (size_t i = 0; i < args.size(); ++i) {
    const Option found = Match(args, i, {"-ccbin", "--compiler-bindir"});
    if (found.count > 0) named = found.value;
  }
  std::error_code error;
  std::vector<std::string> programs{named};
  if (named.empty()) {
    programs = {Which("gcc", environment), Which("g++", environment)};
  } else if (std::filesystem::is_directory(named, error)) {
    programs = {named + "/gcc", named + "/g++"};
  }
  for (const std::string& program : programs) {
    if (ToolOf(config, program).empty()) return "host compiler " + program + " is not the kit's";
  }
  return "";
}

bool IsNative(std::string_view arg) {
  constexpr std::string_view kNative = "native";
  return arg.size() >= kNative.size() && arg.substr(arg.size() - kNative.size()) == kNative;
}

std::string JudgeHostFlags(std::string flags) {
  for (char& c : flags) c = c == ' ' ? ',' : c;
  for (std::string flag : Split(flags, ',')) {
    for (char mark : {'"', '\''}) {
      while (!flag.empty() && flag.front() == mark) flag.erase(0, 1);
    }
    bool is_known = false;
    // These hand on words of their own to other programs.
    for (std::string_view handed : {"-Wp", "-Wa", "-Wl"}) {
      if (flag == handed || StartsWith(flag, std::string(handed) + "\\")) {
        return "-Xcompiler " + flag;
      }
    }
    for (std::string_view allowed : kHostAllowed) is_known |= StartsWith(flag, allowed);
    if (!is_known || IsRefused(Undashed(flag)) || IsNative(flag)) return "-Xcompiler " + flag;
  }
  return "";
}

// What is handed to the other programs of nvcc, which have options of their own for files.
std::string JudgeHanded(const std::string& option, const std::string& flags) {
  for (const std::string& flag : Split(flags, ',')) {
    if (IsRefused(Undashed(flag)) || StartsWith(flag, "@")) return option + " " + flag;
  }
  return "";
}

// Headers that are read before the source: one that Presence looks for, spelled as it knows it.
bool IsOtherInclude(const Args& args, size_t i) {
  const std::string_view name = Undashed(args[i]);
  if (args[i] == "-include") {
    return i + 1 < args.size() && args[i + 1].find(',') != std::string::npos;
  }
  return StartsWith(name, "pre-include") || StartsWith(name, "imacros") ||
         (StartsWith(name, "include") && !IsOption(name, "include-path"));
}

// Options whose next argument is a file or a name, which may look like anything.
bool IsSkipped(std::string_view arg) {
  for (std::string_view flag : {"-o", "-MF", "-MT", "-MQ", "-I", "-isystem", "-include", "-iquote",
                                "-idirafter", "-D", "-U", "-L", "-l", "-x", "-ccbin"}) {
    if (arg == flag) return true;
  }
  return false;
}

std::string JudgeArgs(const Args& args, bool is_nvcc) {
  bool compiles = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const std::string_view name = Undashed(arg);
    if (arg == "-" || StartsWith(arg, "@")) return arg;
    if (IsNative(arg)) return arg + ": what that is depends on the machine";
    if (IsOtherInclude(args, i)) return arg;
    if (IsSkipped(arg)) {
      ++i;
      continue;
    }
    // GCC's -d writes what its passes think.
    if (IsRefused(name)) return arg;
    if (!is_nvcc && (StartsWith(arg, "-B") || StartsWith(arg, "-d"))) return arg;
    for (std::string_view flag : {"c", "compile", "dc", "device-c", "dw", "device-w"}) {
      compiles |= name == flag && (is_nvcc || flag == "c");
    }
    const Option host = Match(args, i, {"-Xcompiler", "--compiler-options"});
    if (is_nvcc && host.count > 0) {
      const std::string refusal = JudgeHostFlags(host.value);
      if (!refusal.empty()) return refusal;
      i += host.count - 1;
    } else if (is_nvcc && StartsWith(arg, "-X")) {
      const size_t equals = arg.find('=');
      const bool is_next = equals == std::string::npos && i + 1 < args.size();
      const std::string refusal =
          JudgeHanded(arg.substr(0, equals), is_next ? args[i + 1] : arg.substr(equals + 1));
      if (!refusal.empty()) return refusal;
      i += is_next;
    }
  }
  return compiles ? "" : "it does more than compile one source";
}

// Collects the directories in which the call looks for headers.
void AddSearch(const Args& args, bool is_nvcc, std::vector<std::string>* search) {
  for (size_t i = 0; i < args.size(); ++i) {
    Option found = Match(args, i, {"-isystem", "-iquote", "-idirafter", "-I"}, true);
    if (found.count == 0) found = Match(args, i, {"--include-path", "--system-include"});
    if (found.count == 0) continue;
    i += found.count - 1;
    if (!is_nvcc) {
      search->push_back(found.value);
      continue;
    }
    for (const std::string& folder : Split(found.value, ',')) search->push_back(folder);
  }
}

// Sees to a dependency file that names all headers, those of the system too; returns a refusal.
std::string AddDepfile(bool is_nvcc, const std::string& spare, Cacheable* cacheable) {
  Args kept;
  bool has_list = false;
  const Args& args = cacheable->args;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view name = Undashed(args[i]);
    if (name == "MD" || name == "MMD" || name == "generate-dependencies-with-compile" ||
        name == "generate-nonsystem-dependencies-with-compile") {
      has_list = true;
      continue;
    }
    const Option file = Match(args, i, {"-MF", "--dependency-output"}, !is_nvcc);
    if (file.count > 0) {
      cacheable->depfile = file.value;
      i += file.count - 1;
      continue;
    }
    kept.push_back(args[i]);
    if (IsSkipped(args[i]) && i + 1 < args.size()) kept.push_back(args[++i]);
  }
  if (has_list && cacheable->depfile.empty()) return "a dependency file without a name";
  if (!has_list) cacheable->depfile = spare;
  cacheable->args = {"-MD", "-MF", cacheable->depfile};
  cacheable->args.insert(cacheable->args.end(), kept.begin(), kept.end());
  return "";
}

// What the configuration maps a directory to, wherever it stands in a text.
std::string Renamed(const std::vector<PrefixMap>& maps, std::string text) {
  for (const auto& [from, to] : maps) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

bool IsObeyed(std::string_view name) {
  for (std::string_view pattern : kVariables) {
    if (pattern[0] != '*') {
      if (StartsWith(name, pattern)) return true;
      continue;
    }
    const std::string_view end = pattern.substr(1);
    if (name.size() >= end.size() && name.substr(name.size() - end.size()) == end) return true;
  }
  return false;
}

// A cache expands dollars in its settings, and some stop at other marks.
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/._=+:-").find(c) != std::string_view::npos;
    if (is_plain) {
      plain += c;
      continue;
    }
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
    plain += code;
  }
  return plain;
}

std::string Judged(const Config& config, const std::string& compiler, const Call& call,
                   const Environment& environment, const std::string& spare, Cacheable* cacheable) {
  cacheable->tool = ToolOf(config, Which(compiler, environment));
  if (cacheable->tool.empty()) return compiler + " is not the kit's";
  if (call.output.empty()) return "it names no object";
  for (const char* name : kRefusedVariables) {
    if (!Get(environment, name).empty()) return "variable " + std::string(name);
  }
  Args all = cacheable->args;
  if (call.is_nvcc) {
    const Args before = ParseResponse(Get(environment, "NVCC_PREPEND_FLAGS"));
    const Args after = ParseResponse(Get(environment, "NVCC_APPEND_FLAGS"));
    all.insert(all.begin(), before.begin(), before.end());
    all.insert(all.end(), after.begin(), after.end());
    const std::string refusal = JudgeHost(config, all, environment);
    if (!refusal.empty()) return refusal;
  }
  const std::string refusal = JudgeArgs(all, call.is_nvcc);
  if (!refusal.empty()) return refusal;
  for (const std::string& arg : all) {
    const std::string_view name = Undashed(arg);
    cacheable->holds_place |=
        call.is_nvcc && (name == "lineinfo" || name == "G" || name == "generate-line-info" ||
                         name == "device-debug");
  }
  AddSearch(all, call.is_nvcc, &cacheable->search);
  for (const char* name : {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}) {
    for (const std::string& folder : Split(Get(environment, name), ':')) {
      cacheable->search.push_back(folder);
    }
  }
  cacheable->search.insert(cacheable->search.end(), config.engine.search.begin(),
                           config.engine.search.end());
  return AddDepfile(call.is_nvcc, spare, cacheable);
}

}  // namespace

Cacheable Judge(const Config& config, const std::string& compiler, const Args& args,
                const Call& call, const Environment& environment, const std::string& spare) {
  Cacheable cacheable;
  for (size_t i = 0; call.is_nvcc && i < args.size(); ++i) {
    // To nvcc that is a source, or meant for another program; taken apart it would be something
    // else.
    const bool is_handed =
        i > 0 && StartsWith(args[i - 1], "-X") && args[i - 1].find('=') == std::string::npos;
    const bool names_file = StartsWith(args[i], "--options-file") || StartsWith(args[i], "-optf");
    if (StartsWith(args[i], "@") || (is_handed && names_file)) cacheable.refusal = args[i];
  }
  if (!cacheable.refusal.empty()) return cacheable;
  cacheable.args = ExpandResponses(args, call.is_nvcc).value_or(args);
  cacheable.refusal = Judged(config, compiler, call, environment, spare, &cacheable);
  return cacheable;
}

std::string Identity(const Config& config, const Cacheable& cacheable, const Call& call,
                     const Environment& environment, const std::string& directory) {
  std::vector<std::string> parts{kFormat,
                                 config.engine.toolchain,
                                 cacheable.tool,
                                 StableName(config.maps, directory + "/.", directory),
                                 StableName(config.maps, call.source, directory),
                                 "as " + Renamed(config.maps, Real(Which("as", environment)))};
  for (const std::string& flag :
       StableFlags(config.maps, call, cacheable.args, directory, "/buildkit/scratch")) {
    parts.push_back(Renamed(config.maps, flag));
  }
  // Of these ccache hashes that they are there, not what they say.
  for (const std::string& arg : cacheable.args) {
    if (arg.find("-prefix-map=") != std::string::npos ||
        arg.find("-prefix-path=") != std::string::npos) {
      parts.push_back(Renamed(config.maps, arg));
    }
  }
  for (const auto& [name, value] : environment) {
    if (IsObeyed(name)) parts.push_back(name + "=" + Renamed(config.maps, value));
  }
  if (cacheable.holds_place) parts.push_back("in " + directory);
  std::string identity;
  for (const std::string& part : parts) identity += Plain(part) + ";";
  return identity;
}

}  // namespace bk
