#include "rules.h"

namespace bk {
namespace {

struct Named {
  std::string name;  // without dashes
  std::string value;
  bool has_value;
};

Named Parse(std::string_view flag) {
  Named named{"", "", false};
  size_t start = 0;
  while (start < flag.size() && start < 2 && flag[start] == '-') ++start;
  const size_t equals = flag.find('=');
  named.name = std::string(flag.substr(
      start, equals == std::string_view::npos ? std::string_view::npos : equals - start));
  if (equals != std::string_view::npos) {
    named.value = std::string(flag.substr(equals + 1));
    named.has_value = true;
  }
  // The one short form that hides a long one's value. Source: nvcc manual, "--threads (-t)".
  if (named.name == "t") named.name = "threads";
  return named;
}

// How many arguments from `i` on are the flag of the rule; 0 if they are not.
size_t Matches(const Rule& rule, const Args& args, size_t i) {
  if (args[i].empty() || args[i][0] != '-') return 0;
  if (args[i] == rule.old) return 1;
  const Named wanted = Parse(rule.old);
  Named given = Parse(args[i]);
  size_t count = 1;
  const bool is_short_threads = wanted.name == "threads" && args[i].size() > 2 &&
                                StartsWith(args[i], "-t") && args[i][2] >= '0' && args[i][2] <= '9';
  if (is_short_threads) {
    given = Named{"threads", args[i].substr(2), true};
  }
  if (given.name != wanted.name || !wanted.has_value) return 0;
  if (!given.has_value) {
    if (i + 1 >= args.size()) return 0;
    given.value = args[i + 1];
    count = 2;
  }
  return wanted.value == "*" || wanted.value == given.value ? count : 0;
}

}  // namespace

bool ApplyRules(const std::vector<Rule>& rules, Language language, Args* args) {
  bool changed = false;
  for (const Rule& rule : rules) {
    if (rule.language != Language::kNone && rule.language != language) continue;
    for (size_t i = 0; i < args->size(); ++i) {
      const size_t count = Matches(rule, *args, i);
      if (count == 0) continue;
      args->erase(args->begin() + i, args->begin() + i + count);
      if (rule.fresh.empty()) {
        --i;  // what follows stands here now; wraps to 0 at the next step when i is 0
      } else {
        args->insert(args->begin() + i, rule.fresh);
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace bk
