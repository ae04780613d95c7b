// A compiler call by way of a cache of objects.
//
//   bk-launch -> cache -> bk-admit -> compiler
//
// The cache answers a hit by itself, so that it takes no slot and no memory of the build. On a
// miss it calls bk-admit, which runs the call as it was given: not as the cache spells it, so that
// the object is the same with and without a cache.
#pragma once

#include <optional>

#include "config.h"
#include "task.h"

namespace bk {

// Names, in the environment, the file that holds the task for bk-admit.
constexpr char kTaskVariable[] = "BK_ADMIT_TASK";

// Runs a call by way of the cache and returns its status; nullopt when the compiler has to be run
// without one: `task` then says why, in `objects`.
std::optional<int> RunCached(const Config& config, Task* task);

// What bk-admit does: runs the call of the task's file, and tells the cache, on standard output,
// what headers it has looked for. Returns the status.
int Admit(const Config& config, const char* task_file);

}  // namespace bk
