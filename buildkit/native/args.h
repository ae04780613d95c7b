// Compiler calls as lists of arguments. Pure: no process, and no file but response files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bk {

using Args = std::vector<std::string>;

enum class Language { kNone, kC, kCxx, kCuda };

// What a call is about, read from its arguments.
struct Call {
  bool is_nvcc = false;
  Language language = Language::kNone;  // of its source, or of the whole call when it links
  std::string source;                   // empty when it compiles no file
  std::string output;
};

// The last component of a path.
std::string_view BaseName(std::string_view path);

// `text` begins with `prefix`.
bool StartsWith(std::string_view text, std::string_view prefix);

// Splits at `separator`, outside brackets; empty parts are left away.
std::vector<std::string> Split(std::string_view text, char separator);

// The arguments in a response file, as GCC and nvcc split them: blanks separate, quotes and
// backslashes protect. Source: GCC manual, "@file"; nvcc manual, "--options-file".
Args ParseResponse(std::string_view text);

// `args` with every response file of an nvcc or gcc call replaced by what it holds; nullopt when
// there is none or one cannot be read. `args` is without the compiler itself.
std::optional<Args> ExpandResponses(const Args& args, bool is_nvcc);

// The arguments of ninja or make with `-j` set to `jobs`, and without `-l`, which would hold jobs
// back by the load average; unchanged if `jobs` is 0.
// Source: ninja manual, "Running Ninja"; GNU make manual, "Options Summary".
Args WithJobs(const Args& args, int jobs);

// Reads what a call of `compiler` with `args` is about.
Call Describe(std::string_view compiler, const Args& args);

}  // namespace bk
