#include "usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bk {
namespace {

// The start of a small /proc file.
std::string ReadSmall(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  char text[4096];
  const ssize_t count = read(file, text, sizeof text);
  close(file);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
}

uint64_t ResidentBytes(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/statm", pid);
  unsigned long total = 0, resident = 0;
  if (std::sscanf(ReadSmall(path).c_str(), "%lu %lu", &total, &resident) != 2) return 0;
  static const long kPage = sysconf(_SC_PAGESIZE);
  return static_cast<uint64_t>(resident) * static_cast<uint64_t>(kPage);
}

void AddChildren(pid_t pid, std::vector<pid_t>* pids) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* tasks = opendir(path);
  if (tasks == nullptr) return;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    char file[128];
    std::snprintf(file, sizeof file, "/proc/%d/task/%.20s/children", pid, task->d_name);
    const std::string text = ReadSmall(file);
    const char* at = text.c_str();
    char* end = nullptr;
    for (long child = std::strtol(at, &end, 10); end != at; child = std::strtol(at, &end, 10)) {
      pids->push_back(static_cast<pid_t>(child));
      at = end;
    }
  }
  closedir(tasks);
}

}  // namespace

uint64_t TreeBytes(pid_t root) {
  std::vector<pid_t> pids{root};
  uint64_t bytes = 0;
  for (size_t i = 0; i < pids.size(); ++i) {
    bytes += ResidentBytes(pids[i]);
    AddChildren(pids[i], &pids);
  }
  return bytes;
}

}  // namespace bk
