#include "scratch.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace bk {

Scratch::Scratch() {
  const char* base = std::getenv("TMPDIR");
  std::string pattern = base != nullptr && *base != '\0' ? base : "/tmp";
  pattern += "/bk-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace bk
