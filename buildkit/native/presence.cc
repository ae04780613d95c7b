#include "presence.h"

#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "files.h"

namespace bk {
namespace {

constexpr size_t kLongestName = 300;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::strchr("_./+-@~ ,=#$%", c) != nullptr || static_cast<unsigned char>(c) >= 0x80;
}

// Adds every `<name>` and `"name"` of a line.
void AddNames(std::string_view line, std::vector<Spelled>* spelled) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '<' && line[i] != '"') continue;
    const char closing = line[i] == '<' ? '>' : '"';
    size_t end = i + 1;
    while (end < line.size() && end - i <= kLongestName && IsNameByte(line[end])) ++end;
    if (end >= line.size() || line[end] != closing || end == i + 1) continue;
    spelled->push_back({std::string(line.substr(i + 1, end - i - 1)), closing == '"'});
    i = end;
  }
}

// The end of a line that backslashes may carry on.
size_t LineEnd(std::string_view text, size_t at) {
  while (true) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    size_t last = end;
    if (last > 0 && text[last - 1] == '\r') --last;
    if (last == 0 || text[last - 1] != '\\') return end;
    at = end + 1;
  }
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Looks names up, and remembers what it saw: thousands of headers spell the same few.
class Finder {
 public:
  Finder(const std::vector<std::string>& search, const std::vector<PrefixMap>& maps,
         const std::string& directory)
      : search_(search), maps_(maps), directory_(directory) {}

  void Find(const std::string& folder, const Spelled& spelled) {
    if (spelled.name[0] == '/') {
      Try("", spelled.name);
      return;
    }
    if (spelled.is_quoted) Try(folder + "/", spelled.name);
    if (!seen_.insert(spelled.name).second) return;
    for (const std::string& place : search_) Try(place + "/", spelled.name);
  }

  void Try(const std::string& folder, const std::string& name) {
    const size_t slash = name.find('/', 1);
    if (slash != std::string::npos && !Exists(folder + name.substr(0, slash))) return;
    const std::string file = folder + name;
    if (Exists(file)) found_.insert(StableName(maps_, file, directory_));
  }

  const std::set<std::string>& found() const { return found_; }

 private:
  bool Exists(const std::string& path) {
    const auto known = known_.find(path);
    if (known != known_.end()) return known->second;
    struct stat status;
    const bool exists = stat(path.c_str(), &status) == 0;
    known_.emplace(path, exists);
    return exists;
  }

  const std::vector<std::string>& search_;
  const std::vector<PrefixMap>& maps_;
  const std::string& directory_;
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::string, bool> known_;
  std::set<std::string> found_;
};

}  // namespace

std::vector<Spelled> ParseSpelled(std::string_view source, bool* has_other) {
  std::vector<Spelled> spelled;
  if (source.find("incbin") != std::string_view::npos) *has_other = true;
  for (size_t at = source.find('#'); at != std::string_view::npos; at = source.find('#', at)) {
    size_t begin = at;
    while (begin > 0 && IsBlank(source[begin - 1])) --begin;
    const bool is_directive = begin == 0 || source[begin - 1] == '\n' || source[begin - 1] == '/';
    const size_t end = LineEnd(source, at);
    // In the middle of a line it is none, unless a comment ends before it.
    if (is_directive) AddNames(source.substr(at, end - at), &spelled);
    at = is_directive ? end : at + 1;
  }
  return spelled;
}

std::vector<std::string> ParseDependencies(std::string_view text) {
  std::vector<std::string> files;
  std::string word;
  bool is_target = true;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (is_target) {
      is_target = word.back() != ':';
    } else {
      files.push_back(word);
    }
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\n';
    if (c == '\\' && next == '\n') {
      end_word();
      ++i;
    } else if (c == '\\' && (next == ' ' || next == '#' || next == '\\' || next == ':')) {
      word += next;
      ++i;
    } else if (c == '$' && next == '$') {
      word += c;
      ++i;
    } else if (c == '\n') {
      end_word();
      is_target = true;
    } else if (IsBlank(c) || c == '\r') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return files;
}

std::string Presence(const std::string& depfile, const std::vector<std::string>& search,
                     const Args& args, const std::vector<PrefixMap>& maps,
                     const std::string& directory) {
  const std::optional<std::string> list = ReadFile(depfile);
  if (!list) return "";
  Finder finder(search, maps, directory);
  std::vector<std::string> places;
  for (const std::string& place : search)
    places.push_back(StableName(maps, place + "/", directory));
  std::vector<Spelled> given;
  for (size_t i = 0; i < args.size(); ++i) {
    AddNames(args[i], &given);
    if (args[i] == "-include" && i + 1 < args.size()) given.push_back({args[i + 1], true});
  }
  for (const Spelled& spelled : given) finder.Find(".", spelled);
  bool has_other = false;
  for (const std::string& file : ParseDependencies(*list)) {
    const std::optional<std::string> source = ReadFile(file);
    if (!source) return "";
    const size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
    for (const Spelled& spelled : ParseSpelled(*source, &has_other)) finder.Find(folder, spelled);
    // A name that a macro has put together is known by what it has led to.
    const std::string name = StableName(maps, file, directory);
    for (const std::string& place : places) {
      if (StartsWith(name, place)) finder.Find(folder, {name.substr(place.size()), false});
    }
    finder.Try("", file + ".gch");
  }
  if (has_other) return "";
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a: tells states of one unit apart, no more
  for (const std::string& file : finder.found()) {
    for (const char c : file + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  char word[24];
  std::snprintf(word, sizeof word, "%016" PRIx64, hash);
  return word;
}

}  // namespace bk
