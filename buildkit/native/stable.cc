#include "stable.h"

#include <filesystem>

namespace bk {
namespace {

// What stands for the directory of intermediate files, whose own name is random.
constexpr char kScratch[] = "/buildkit/tmp";

// Whether a name passes unchanged through the option that takes it: gcc splits at `=`, nvcc at
// commas and quotes.
bool IsPlain(std::string_view path) {
  return path.find_first_of("=,\"'\\$`") == std::string_view::npos;
}

// One mapping for the host compiler. nvcc passes it through a shell, where a blank needs quotes.
void AddMap(const PrefixMap& map, bool is_nvcc, Args* flags) {
  if (!IsPlain(map.first) || !IsPlain(map.second)) return;
  std::string flag = "-ffile-prefix-map=" + map.first + "=" + map.second;
  if (is_nvcc && flag.find(' ') != std::string::npos) flag = '"' + flag + '"';
  flags->push_back(is_nvcc ? "-Xcompiler=" + flag : flag);
}

bool HasAny(const Args& args, std::initializer_list<std::string_view> wanted) {
  for (const std::string& arg : args) {
    for (std::string_view flag : wanted) {
      if (StartsWith(arg, flag) && (arg.size() == flag.size() || arg[flag.size()] == '=')) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string StableName(const std::vector<PrefixMap>& maps, const std::string& file,
                       const std::string& directory) {
  const std::string whole =
      (std::filesystem::path(directory) / file).lexically_normal().generic_string();
  for (const auto& [from, to] : maps) {
    if (StartsWith(whole, from + "/")) return to + whole.substr(from.size());
  }
  return whole;
}

Args StableFlags(const std::vector<PrefixMap>& maps, const Call& call, const Args& args,
                 const std::string& directory, const std::string& scratch) {
  Args flags;
  if (maps.empty() || call.source.empty()) return flags;
  for (const PrefixMap& map : maps) AddMap(map, call.is_nvcc, &flags);
  // With an output, nvcc compiles one source: only then can its internal names be chosen for it.
  if (!call.is_nvcc || call.language != Language::kCuda || call.output.empty() ||
      !HasAny(args, {"-c", "--compile", "-dc", "--device-c", "-dw", "--device-w"})) {
    return flags;
  }
  const std::string name = StableName(maps, call.source, directory);
  if (IsPlain(name) && name.find(' ') == std::string::npos) {
    flags.insert(flags.end(), {"-Xcudafe", "--orig_src_path_name=" + name});
  }
  // Kept files have plain names; their directory goes when the call has ended.
  if (!scratch.empty() &&
      !HasAny(args, {"-keep", "--keep", "-keep-dir", "--keep-dir", "-save-temps", "--save-temps",
                     "-objtemp", "--objdir-as-tempdir"})) {
    AddMap({scratch, kScratch}, true, &flags);
    flags.insert(flags.end(), {"--keep", "--keep-dir", scratch});
  }
  return flags;
}

}  // namespace bk
