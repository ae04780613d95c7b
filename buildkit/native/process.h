// Runs a compiler in a process group of its own, measures it, and carries out the governor's
// orders.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "admit.h"
#include "args.h"

namespace bk {

// Why a call did not end by itself.
enum class Cut {
  kNone,
  kGovernor,  // ended for memory, to be repeated
  kKernel,    // killed by the kernel
  kCap,       // it alone holds more than the whole cap
};

const char* Name(Cut cut);

struct Outcome {
  int status = 0;            // as a shell counts: 128 + signal for signals
  double start_seconds = 0;  // since the epoch
  double wall_seconds = 0;   // with pauses
  double paused_seconds = 0;
  double cpu_seconds = 0;
  uint64_t peak_bytes = 0;                           // of the whole process tree
  double byte_seconds = 0;                           // integral of its memory over time
  std::vector<std::pair<double, uint64_t>> samples;  // seconds since its start, bytes
  std::string stderr_tail;                           // the end of what it wrote to standard error
  std::string stderr_held;                           // what of it is not passed on yet
  Cut cut = Cut::kNone;
};

// Runs `argv` with `temporary` as its TMPDIR, unless that is empty, and forwards signals to its
// group, which ends with the launcher.
Outcome Run(const Args& argv, const std::string& temporary, Admission* admission);

// Passes on what a call wrote to standard error and was held back.
void Release(const Outcome& outcome);

// Replaces this process by `argv`; returns only on failure, with 127 after a message.
int Exec(const Args& argv);

}  // namespace bk
