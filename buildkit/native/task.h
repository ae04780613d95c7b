// One compiler call as bk-launch hands it on: to the compiler itself, or by way of a cache of
// objects to bk-admit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "args.h"
#include "config.h"
#include "gencode.h"

namespace bk {

struct Task {
  std::string compiler;
  Args args;  // rewritten, without what keeps our own place out of the object
  Call call;
  Decision decision = Decision::kPassed;
  std::string flags;    // as FlagsDigest gives them
  std::string objects;  // what the cache of objects had to do with it; goes to the record
  std::string depfile;  // where the cache finds the headers; empty without a cache
  std::vector<std::string> search;  // directories of headers
};

// The task as text for ParseTask; holds NUL bytes.
std::string RenderTask(const Task& task);

// The task in a text of RenderTask; nullopt if it is none.
std::optional<Task> ParseTask(std::string_view text);

// Where this process is, without links.
std::string Directory();

// CMake's own try-outs of a compiler are no translation units of the project.
bool IsTryOut(const Call& call);

// The arguments that the compiler gets: after those that keep our own place out of its output.
Args StableArgs(const Config& config, const Task& task, const std::string& scratch);

// Runs the compiler as often as the governor and the kernel make it necessary, writes a record of
// each attempt, and returns its status.
int Govern(const Config& config, const Task& task);

}  // namespace bk
