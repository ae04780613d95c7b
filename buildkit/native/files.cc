#include "files.h"

#include <cstdio>

namespace bk {

std::optional<std::string> ReadFile(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return std::nullopt;
  std::string text;
  char block[65536];
  size_t count;
  while ((count = std::fread(block, 1, sizeof block, file)) > 0) text.append(block, count);
  std::fclose(file);
  return text;
}

bool WriteFile(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return false;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && is_written;
}

}  // namespace bk
