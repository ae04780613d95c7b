// Runs a compiler in a process group of its own, and measures it.
#pragma once

#include <string>

#include "args.h"

namespace bk {

struct Outcome {
  int status = 0;            // as a shell counts: 128 + signal for signals
  double start_seconds = 0;  // since the epoch
  double wall_seconds = 0;
  double cpu_seconds = 0;
  uint64_t peak_bytes = 0;  // of the whole process tree
  std::string stderr_tail;  // the end of what it wrote to standard error
};

// Runs `argv`, forwards signals to its group, passes its standard error on as it comes. The group
// ends with the launcher.
Outcome Run(const Args& argv);

// Replaces this process by `argv`; returns only on failure, with 127 after a message.
int Exec(const Args& argv);

}  // namespace bk
