// Whole files, read and written.
#pragma once

#include <optional>
#include <string>

namespace bk {

// What a file holds; nullopt if it cannot be read.
std::optional<std::string> ReadFile(const std::string& path);

// Writes a new file, or one anew; false if that failed.
bool WriteFile(const std::string& path, const std::string& text);

}  // namespace bk
