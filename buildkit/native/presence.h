// Headers that are not there. A dependency file names what a compiler has read; what it has looked
// for in vain it does not name. Where such a header appears, earlier in the search or asked for by
// __has_include, a cache that compares what was read would give the old object.
//
// So with each object is kept which of the names that its sources spell can be found where. The
// names are read from preprocessor directives, also from those that were not taken, and from
// macros that hold one: more than what the compiler has looked for, never less, save for names
// that macros put together and nothing answers to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "args.h"
#include "stable.h"

namespace bk {

// A name of a header, as a directive or an option spells it.
struct Spelled {
  std::string name;
  bool is_quoted = false;  // looked for beside the file that spells it, too
};

// The names of headers in a source. Sets `has_other` if it reads files in ways that no dependency
// file tells of (.incbin).
std::vector<Spelled> ParseSpelled(std::string_view source, bool* has_other);

// The files that a dependency file in make's form names, without targets.
std::vector<std::string> ParseDependencies(std::string_view text);

// A word for which of the names can be found where, the same in every place of the build; empty
// when that cannot be told. Reads the dependency file and all that it names.
// `args` may spell names too.
std::string Presence(const std::string& depfile, const std::vector<std::string>& search,
                     const Args& args, const std::vector<PrefixMap>& maps,
                     const std::string& directory);

}  // namespace bk
