// Flags that keep the place and the time of a build out of what it compiles. Pure.
//
// A build lies in a directory of its own, and so do its headers; compilers write those names into
// objects (`__FILE__`, debug information). nvcc besides derives the names of internal symbols from
// the absolute path of the source, and names objects after temporary files that hold its process
// number.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "args.h"

namespace bk {

// A directory, and the name that stands for it in objects.
using PrefixMap = std::pair<std::string, std::string>;

// The name that stands for a file in objects: absolute, and the same in every build.
// `directory` is what relative names start from.
std::string StableName(const std::vector<PrefixMap>& maps, const std::string& file,
                       const std::string& directory);

// The flags to put before the arguments of a call; none when nothing is mapped. `args` are without
// response files. `scratch` is a directory for nvcc's intermediate files, or empty.
Args StableFlags(const std::vector<PrefixMap>& maps, const Call& call, const Args& args,
                 const std::string& directory, const std::string& scratch);

}  // namespace bk
