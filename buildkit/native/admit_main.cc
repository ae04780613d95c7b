// bk-admit: stands between a cache of objects and the compiler, and runs what bk-launch was given.
//
// The cache calls it as `bk-admit COMPILER ARGS...`; these are the cache's words for the call, and
// are not looked at: BK_ADMIT_TASK names the file in which bk-launch has left its own.
#include <cstdio>
#include <cstdlib>

#include "cached.h"
#include "config.h"

int main() {
  const char* file = std::getenv("BK_LAUNCH_CONFIG");
  const char* task = std::getenv(bk::kTaskVariable);
  const std::optional<bk::Config> config = file != nullptr ? bk::ReadConfig(file) : std::nullopt;
  if (!config || task == nullptr) {
    std::fprintf(stderr, "bk-admit: only bk-launch calls it, by way of a cache of objects\n");
    return 2;
  }
  return bk::Admit(*config, task);
}
