#include "gencode.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace bk {
namespace {

// Code for one virtual architecture, and where it stands in the call.
struct Entry {
  std::string arch;                // compute_90; empty when only -arch=native or the like is given
  std::vector<std::string> codes;  // sm_90, compute_90, lto_90, native, all, all-major
  size_t first = 0;                // index of its first argument
};

// One flag of the call that names targets.
struct Flag {
  std::string name;
  std::string value;
  size_t first;
  size_t count;
};

std::string Unquoted(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](char c) { return c == '"' || c == '\'' || c == '[' || c == ']'; }),
             text.end());
  return text;
}

std::optional<Flag> FlagAt(const Args& args, size_t i) {
  static const char* const kNames[] = {"-gencode",           "--generate-code", "-arch",
                                       "--gpu-architecture", "-code",           "--gpu-code"};
  for (const char* name : kNames) {
    const std::string joined = std::string(name) + "=";
    if (StartsWith(args[i], joined)) return Flag{name, args[i].substr(joined.size()), i, 1};
    if (args[i] == name && i + 1 < args.size()) return Flag{name, args[i + 1], i, 2};
  }
  return std::nullopt;
}

Entry ParseGencode(const Flag& flag) {
  Entry entry;
  entry.first = flag.first;
  std::string value = flag.value;
  value.erase(
      std::remove_if(value.begin(), value.end(), [](char c) { return c == '"' || c == '\''; }),
      value.end());
  for (const std::string& part : Split(value, ',')) {
    if (StartsWith(part, "arch=")) {
      entry.arch = part.substr(5);
    } else if (StartsWith(part, "code=")) {
      entry.codes = Split(Unquoted(part.substr(5)), ',');
    } else {
      entry.codes.push_back(Unquoted(part));  // code="sm_90,compute_90" without brackets
    }
  }
  if (entry.codes.empty() && !entry.arch.empty()) entry.codes.push_back(entry.arch);
  return entry;
}

// -arch and -code make one entry together; -arch=sm_90 alone means code sm_90 and PTX compute_90.
Entry ParsePair(const std::string& arch, const std::string& code, size_t first) {
  Entry entry;
  entry.first = first;
  entry.codes = Split(Unquoted(code), ',');
  if (StartsWith(arch, "sm_")) {
    entry.arch = "compute_" + arch.substr(3);
    if (entry.codes.empty()) entry.codes = {arch, entry.arch};
  } else if (StartsWith(arch, "compute_")) {
    entry.arch = arch;
    if (entry.codes.empty()) entry.codes = {arch};
  } else if (entry.codes.empty()) {
    entry.codes = {arch};
  }
  return entry;
}

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string Render(const Entry& entry) {
  std::string codes;
  for (const std::string& code : entry.codes) codes += (codes.empty() ? "" : ",") + code;
  if (entry.codes.size() > 1) codes = "[" + codes + "]";
  return "-gencode=arch=" + entry.arch + ",code=" + codes;
}

// A wish that any nvcc can fulfil for the target: PTX for it, or "whatever there is".
bool CanMake(const Target& target, const std::string& code) {
  if (code == "native" || code == "all" || code == "all-major") return true;
  return StartsWith(code, "compute_") && Contains(target.accepted, "sm_" + code.substr(8));
}

struct Found {
  std::vector<Entry> entries;
  std::vector<Flag> flags;
};

Found Find(const Args& args) {
  Found found;
  std::string arch, code;
  size_t first = args.size();
  for (size_t i = 0; i < args.size(); ++i) {
    const std::optional<Flag> flag = FlagAt(args, i);
    if (!flag) continue;
    found.flags.push_back(*flag);
    if (flag->name == "-gencode" || flag->name == "--generate-code") {
      found.entries.push_back(ParseGencode(*flag));
    } else {
      const bool is_code = flag->name == "-code" || flag->name == "--gpu-code";
      (is_code ? code : arch) = flag->value;
      first = std::min(first, i);
    }
    i += flag->count - 1;
  }
  if (!arch.empty() || !code.empty()) found.entries.push_back(ParsePair(arch, code, first));
  return found;
}

// Takes all target flags out and puts `gencodes` where the first of them stood.
void Rewrite(const Found& found, const std::vector<std::string>& gencodes, Args* args) {
  size_t place = found.flags.empty() ? 0 : found.flags.front().first;
  for (auto flag = found.flags.rbegin(); flag != found.flags.rend(); ++flag) {
    args->erase(args->begin() + flag->first, args->begin() + flag->first + flag->count);
  }
  args->insert(args->begin() + place, gencodes.begin(), gencodes.end());
}

void AddOnce(const std::string& text, std::vector<std::string>* list) {
  if (!Contains(*list, text)) list->push_back(text);
}

Decision WithoutAccepted(const Target& target, const Found& found, Args* args) {
  if (target.without_code == WithoutCode::kReplace) {
    Rewrite(found, {target.gencode}, args);
    return Decision::kReplaced;
  }
  if (target.without_code == WithoutCode::kDrop) {
    std::vector<std::string> ptx;
    for (const Entry& entry : found.entries) {
      Entry rest{entry.arch, {}, entry.first};
      for (const std::string& code : entry.codes) {
        if (StartsWith(code, "compute_")) rest.codes.push_back(code);
      }
      if (!rest.codes.empty()) AddOnce(Render(rest), &ptx);
    }
    if (!ptx.empty()) {
      Rewrite(found, ptx, args);
      return Decision::kReplaced;
    }
  }
  return Decision::kKept;
}

}  // namespace

const char* Name(Decision decision) {
  switch (decision) {
    case Decision::kPassed:
      return "passed";
    case Decision::kNone:
      return "none";
    case Decision::kPinned:
      return "pinned";
    case Decision::kKept:
      return "kept";
    case Decision::kReplaced:
      return "replaced";
  }
  return "passed";
}

Decision Pin(const Target& target, bool compiles_cuda, Args* args) {
  const Found found = Find(*args);
  if (found.entries.empty() && !compiles_cuda) return Decision::kNone;
  std::vector<std::string> gencodes;
  bool can_make = false;
  for (const Entry& entry : found.entries) {
    Entry rest{entry.arch, {}, entry.first};
    for (const std::string& code : entry.codes) {
      if (Contains(target.accepted, code)) rest.codes.push_back(code);
      can_make = can_make || CanMake(target, code);
    }
    if (!rest.codes.empty()) {
      if (rest.arch.empty())
        rest.arch = "compute_" + rest.codes[0].substr(rest.codes[0].find('_') + 1);
      AddOnce(Render(rest), &gencodes);
    }
  }
  if (gencodes.empty() && can_make) gencodes.push_back(target.gencode);
  if (gencodes.empty()) return WithoutAccepted(target, found, args);
  Rewrite(found, gencodes, args);
  return Decision::kPinned;
}

int PassesAtOnce(const Args& args) {
  std::vector<std::string> targets;
  for (const Entry& entry : Find(args).entries) AddOnce(entry.arch, &targets);
  int threads = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if ((arg == "--threads" || arg == "-t") && i + 1 < args.size()) {
      threads = std::atoi(args[++i].c_str());
    } else if (StartsWith(arg, "--threads=")) {
      threads = std::atoi(arg.c_str() + 10);
    } else if (StartsWith(arg, "-t=")) {
      threads = std::atoi(arg.c_str() + 3);
    } else if (StartsWith(arg, "-t") && arg.size() > 2 &&
               arg.find_first_not_of("0123456789", 2) == std::string::npos) {
      threads = std::atoi(arg.c_str() + 2);
    }
  }
  const int passes = std::max(1, static_cast<int>(targets.size()));
  return threads <= 0 ? passes : std::min(threads, passes);
}

}  // namespace bk
