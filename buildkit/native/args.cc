#include "args.h"

#include <cctype>

#include "files.h"

namespace bk {
namespace {

Language LanguageOf(std::string_view file) {
  const size_t dot = file.rfind('.');
  if (dot == std::string_view::npos || file.find('/', dot) != std::string_view::npos) {
    return Language::kNone;
  }
  const std::string_view suffix = file.substr(dot);
  if (suffix == ".cu") return Language::kCuda;
  if (suffix == ".c") return Language::kC;
  for (std::string_view cxx : {".cpp", ".cc", ".cxx", ".C", ".c++"}) {
    if (suffix == cxx) return Language::kCxx;
  }
  return Language::kNone;
}

// Flags whose next argument is a value that must not be taken for a source. Source: GCC manual,
// "Option Summary"; nvcc manual, "Command Option Description".
bool TakesValue(std::string_view arg) {
  for (std::string_view flag : {"-o",
                                "-MF",
                                "-MT",
                                "-MQ",
                                "-I",
                                "-isystem",
                                "-include",
                                "-iquote",
                                "-idirafter",
                                "-D",
                                "-U",
                                "-L",
                                "-l",
                                "-x",
                                "-ccbin",
                                "--compiler-bindir",
                                "-Xcompiler",
                                "--compiler-options",
                                "-Xlinker",
                                "-Xptxas",
                                "-Xcudafe",
                                "-Xfatbin",
                                "-gencode",
                                "--generate-code",
                                "-arch",
                                "-code",
                                "--gpu-architecture",
                                "--gpu-code",
                                "-t",
                                "--threads",
                                "-std",
                                "--std",
                                "--output-file",
                                "--output-directory",
                                "-odir",
                                "--dependency-output",
                                "-imacros"}) {
    if (arg == flag) return true;
  }
  return false;
}

}  // namespace

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == separator && depth == 0) {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

Args ParseResponse(std::string_view text) {
  Args args;
  std::string arg;
  bool is_open = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      arg += text[++i];
      is_open = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        arg += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_open = true;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      if (is_open) args.push_back(arg);
      arg.clear();
      is_open = false;
    } else {
      arg += c;
      is_open = true;
    }
  }
  if (is_open) args.push_back(arg);
  return args;
}

std::optional<Args> ExpandResponses(const Args& args, bool is_nvcc) {
  Args expanded;
  bool found = false;
  for (size_t i = 0; i < args.size(); ++i) {
    std::vector<std::string> files;
    if (args[i].size() > 1 && args[i][0] == '@') {
      files.push_back(args[i].substr(1));
    } else if (is_nvcc) {
      for (std::string_view flag : {"--options-file", "-optf"}) {
        if (args[i] == flag && i + 1 < args.size()) {
          files = Split(args[++i], ',');
          break;
        }
        if (StartsWith(args[i], std::string(flag) + "=")) {
          files = Split(args[i].substr(flag.size() + 1), ',');
          break;
        }
      }
    }
    if (files.empty()) {
      expanded.push_back(args[i]);
      continue;
    }
    for (const std::string& file : files) {
      const std::optional<std::string> text = ReadFile(file);
      if (!text) return std::nullopt;  // the compiler knows best how to complain
      for (std::string& arg : ParseResponse(*text)) expanded.push_back(std::move(arg));
    }
    found = true;
  }
  if (!found) return std::nullopt;
  return expanded;
}

Args WithJobs(const Args& args, int jobs) {
  if (jobs <= 0) return args;
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
  };
  Args result{"-j" + std::to_string(jobs)};
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (arg == "--") {  // make: the rest are targets
      result.insert(result.end(), args.begin() + i, args.end());
      break;
    }
    bool is_ours = false;
    for (const std::string_view flag : {"-j", "--jobs", "-l", "--load-average", "--max-load"}) {
      if (arg == flag) {
        is_ours = true;
        if (i + 1 < args.size() && is_number(args[i + 1])) ++i;
      } else if (flag[1] != '-' ? StartsWith(arg, flag) && is_number(arg.substr(2))
                                : StartsWith(arg, flag) && arg[flag.size()] == '=') {
        is_ours = true;
      }
    }
    if (!is_ours) result.push_back(args[i]);
  }
  return result;
}

Call Describe(std::string_view compiler, const Args& args) {
  Call call;
  const std::string_view name = BaseName(compiler);
  call.is_nvcc = name.find("nvcc") != std::string_view::npos;
  Language forced = Language::kNone;
  bool compiles = true;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const bool has_next = i + 1 < args.size();
    if (arg == "-x" && has_next) {
      const std::string& named = args[i + 1];
      forced = named == "cu" ? Language::kCuda : named == "c" ? Language::kC : Language::kCxx;
    } else if ((arg == "-o" || arg == "--output-file") && has_next) {
      call.output = args[i + 1];
    } else if (StartsWith(arg, "-o") && arg.size() > 2 && arg[2] != 'd' && arg[2] != 'p') {
      call.output = arg.substr(arg[2] == '=' ? 3 : 2);
    }
    for (std::string_view probe : {"-E", "--preprocess", "-M", "-MM", "--version", "-V", "-v",
                                   "--dryrun", "-dryrun", "-dumpversion", "-dumpmachine"}) {
      if (arg == probe) compiles = false;
    }
    if (TakesValue(arg)) {
      ++i;
    } else if (!arg.empty() && arg[0] != '-' && arg[0] != '@') {
      const Language language = forced != Language::kNone ? forced : LanguageOf(arg);
      if (language != Language::kNone) {
        call.source = arg;
        call.language = language;
      }
    }
  }
  if (call.language == Language::kNone) {
    const bool is_cxx = name.find("++") != std::string_view::npos;
    call.language = call.is_nvcc ? Language::kCuda : is_cxx ? Language::kCxx : Language::kC;
  }
  if (!compiles) call.source.clear();
  return call;
}

}  // namespace bk
