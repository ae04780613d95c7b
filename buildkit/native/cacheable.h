// Whether a compiler call may be answered from a cache of objects, and what identifies it there.
//
// A cache hashes the compiler's name, the arguments, the source and the headers that a dependency
// file names. A call is cached only if that and its identity, see below, are all that its object
// depends on; what reads other files, or writes more than the object, goes to the compiler.
// docs/cache.md has the list.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "args.h"
#include "config.h"

namespace bk {

using Environment = std::map<std::string, std::string>;

struct Cacheable {
  std::string refusal;  // why it is not cached; empty: it is
  Args args;            // without response files, and with a dependency file of all headers
  std::string depfile;
  std::vector<std::string> search;  // directories in which headers are looked for
  std::string tool;                 // name in the configuration, such as `nvcc`
  bool holds_place = false;         // the object tells the directory of the build whatever we do
};

// Judges a call. Reads the file system where compilers are links. `spare` is the dependency file
// of a call that has none.
Cacheable Judge(const Config& config, const std::string& compiler, const Args& args,
                const Call& call, const Environment& environment, const std::string& spare);

// All that makes the object of a call besides what the cache itself looks at: toolchain, variables
// that compilers obey, and names that stand for directories. The same in every place of the build,
// unless `holds_place`. One line, without blanks, dollars or quotes.
std::string Identity(const Config& config, const Cacheable& cacheable, const Call& call,
                     const Environment& environment, const std::string& directory);

}  // namespace bk
