// Flags that a recipe replaces in compiler calls. Pure.
#pragma once

#include <string>
#include <vector>

#include "args.h"

namespace bk {

// One replacement. `old` is `-flag`, `-flag=value`, or `-flag=*` for any value; the call may spell
// it with one dash or two, and the value joined or as the next argument.
struct Rule {
  std::string old;
  std::string fresh;  // empty: the flag is removed
  Language language;  // kNone: for every call
};

// Applies all rules; returns whether any matched.
bool ApplyRules(const std::vector<Rule>& rules, Language language, Args* args);

}  // namespace bk
