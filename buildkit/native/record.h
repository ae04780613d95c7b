// One line of JSON per compiler call.
#pragma once

#include <string>

#include "args.h"
#include "gencode.h"
#include "process.h"

namespace bk {

// `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

// A digest of the arguments without paths, source and output: tells two compilations of one
// source apart. FNV-1a, 64 bits, hexadecimal.
std::string FlagsDigest(const Args& args, const Call& call);

// What a record holds of a call besides its outcome.
struct Subject {
  const Call& call;
  std::string tool;
  std::string flags;  // as FlagsDigest gives them
  Decision decision;
  std::string objects;  // what the cache of objects had to do with it
  int attempt = 1;
  double waited_seconds = 0;  // for the governor
};

// The record of one attempt of a call, with its line end.
std::string RenderRecord(const Subject& subject, const Outcome& outcome);

// Appends in one write, so that records of calls that end together do not mix; a failure is told
// and changes nothing else.
void AppendRecord(const std::string& file, const std::string& record);

}  // namespace bk
