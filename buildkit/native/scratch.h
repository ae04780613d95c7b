// A directory for the temporary files of one compiler call.
#pragma once

#include <string>

namespace bk {

// Makes a directory under TMPDIR and removes it with all that is in it: a killed nvcc leaves files
// of a gigabyte behind. Where none can be made, the path is empty and the compiler uses TMPDIR.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace bk
