// The GPU targets of a compiler call, and how they are narrowed to one. Pure.
//
// A call names targets as `-gencode arch=compute_90,code=[sm_90,compute_90]` (also
// --generate-code, separate or joined, any number of times) or as `-arch=sm_90 -code=sm_90`.
// Source: nvcc manual, "GPU Code Generation Options".
#pragma once

#include <string>
#include <vector>

#include "args.h"

namespace bk {

enum class WithoutCode { kKeep, kReplace, kDrop };

// What became of a call's targets.
enum class Decision { kPassed, kNone, kPinned, kKept, kReplaced };

const char* Name(Decision decision);

// Which code is wanted.
struct Target {
  std::vector<std::string> accepted;  // names such as sm_120, sm_120a, lto_120
  std::string gencode;                // the flag that compiles code for the target alone
  WithoutCode without_code = WithoutCode::kKeep;
};

// Narrows the targets of an nvcc call. Where some code of the call is accepted, everything else
// goes; where the call could make such code (PTX for the target, "native", "all"), it is asked to;
// where it cannot, `without_code` decides. Never leaves a call without a target that had one.
// `compiles_cuda`: the call compiles or links device code, so that naming no target means nvcc's
// own default.
Decision Pin(const Target& target, bool compiles_cuda, Args* args);

// How many compiler passes of an nvcc call run at the same time: as many as `--threads` allows and
// the call has targets. Source: nvcc manual, "--threads"; it is ignored for a single target.
int PassesAtOnce(const Args& args);

}  // namespace bk
