// What bk-launch has to do: a text file of one `key value` per line, written by
// buildkit/launcher.py.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gencode.h"
#include "rules.h"
#include "stable.h"

namespace bk {

// A cache of objects: a program that is called with a compiler and its arguments, and that calls
// bk-admit where it would call the compiler. All that is peculiar to one is in its variables.
struct Engine {
  std::string program;                                         // empty: there is none
  std::vector<std::pair<std::string, std::string>> variables;  // what it is told with each call
  std::string reserved;   // start of the names of its variables: the build may set none of them
  std::string identity;   // variable that takes what else makes a call this call
  std::string prefix;     // what stands before that in the variable
  std::string afresh;     // variable that makes it compile, whatever it has
  std::string toolchain;  // digest of the compilers and all that they call
  std::vector<std::string> search;  // directories in which the host compiler looks for headers
};

struct Config {
  Engine engine;
  Target target;
  std::vector<Rule> rules;
  std::vector<std::pair<std::string, std::string>> tools;  // name of a shim, path of the compiler
  std::vector<PrefixMap> maps;  // directories, and the names that stand for them in objects
  std::string records;          // file that takes the records, or empty
  std::string governor;         // directory of the governor's socket, or empty
  std::string build;            // names the build to the governor
  int slots = 1;                // jobs at the same time when there is no governor
  int jobs = 0;                 // what the build tool's -j becomes; 0 leaves it
  std::string path;             // of this configuration

  // The compiler behind a shim, or an empty string.
  std::string Tool(std::string_view name) const;
};

// Reads a configuration; nullopt if the file cannot be read.
std::optional<Config> ReadConfig(const char* path);

// The same from a text; lines that mean nothing are passed over.
Config ParseConfig(std::string_view text);

}  // namespace bk
