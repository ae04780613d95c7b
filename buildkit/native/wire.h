// What a launcher and the governor say to each other: lines of words separated by tabs. Pure.
//
//   launcher: ask BUILD SOURCE OUTPUT FLAGS LANGUAGE PASSES FLOOR
//                                                   may I start? It will hold FLOOR bytes at least
//             began                                   the compiler runs, in a group of its own
//             rss BYTES                               what its process tree holds now
//             out REASON BYTES                        it ran out of memory at so much; asks again
//             end STATUS BYTES SECONDS                it has ended, with this peak, after so long
//             resume BYTES SECONDS                    after `ask`: it runs already, for so long
//   governor: start, pause, continue, kill, toobig, giveup
//
// A line of the launcher's ends a job's wait at most once: closing the socket gives up the slot.
#pragma once

#include <string>
#include <string_view>

#include "args.h"

namespace bk {

enum class Order { kNone, kStart, kPause, kContinue, kKill, kTooBig, kGiveUp };

// The order in a line without its end; kNone for what means nothing.
Order ParseOrder(std::string_view line);

// A word that holds no tab, line end or percent sign: those become %XX.
std::string Escape(std::string_view text);

// The question for a call, without its last word. `build` tells the governor what is known of its
// units.
std::string RenderAsk(std::string_view build, const Call& call, std::string_view flags, int passes);

}  // namespace bk
