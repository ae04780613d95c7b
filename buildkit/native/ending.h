// How a compiler call ended, read from its status and its messages. Pure.
#pragma once

#include <string_view>

namespace bk {

// The kernel (or anybody with SIGKILL, which a compiler never sends itself) killed the compiler or
// a program that it had started: it ran out of memory, the source is not at fault.
// `status` as a shell counts.
// Source: seen with nvcc 13.0 (status 137 when cicc or ptxas is killed) and GCC 12; older nvcc says
// "'cicc' died due to signal 9".
bool WasKilled(int status, std::string_view messages);

}  // namespace bk
