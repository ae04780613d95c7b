// Memory of a process tree, sampled from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace bk {

// Resident bytes of a process and all its descendants now; 0 when they are gone. Shared pages
// count once per process: compilers share little, and too much is the safe side.
// Source: proc(5), "statm" and "task/[tid]/children".
uint64_t TreeBytes(pid_t root);

}  // namespace bk
