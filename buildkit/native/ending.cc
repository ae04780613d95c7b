#include "ending.h"

#include <signal.h>

namespace bk {

bool WasKilled(int status, std::string_view messages) {
  if (status == 0) return false;
  if (status == 128 + SIGKILL) return true;
  for (const std::string_view text :
       {"died due to signal 9", "Killed signal terminated program", "terminated with signal 9"}) {
    if (messages.find(text) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace bk
