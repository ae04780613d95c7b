// Admission: a compiler call waits for the governor's word, and tells it how it goes.
//
// The governor listens on a Unix socket in a directory of this user. When there is none, or it
// dies, a fixed number of lock files in the same directory are the slots: the work becomes slower,
// but it neither stops nor stampedes. A running call that has lost its governor takes a slot if one
// is free, and goes on either way.
#pragma once

#include <cstdint>
#include <string>

#include "wire.h"

namespace bk {

class Admission {
 public:
  // `directory` empty: everything is admitted. `last_resort` is a file whose lock serialises the
  // calls when the directory itself is gone. `ask` is what RenderAsk made.
  Admission(std::string directory, int slots, std::string last_resort, std::string ask);
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Returns when the call may start; false if it shall not: the build has failed elsewhere.
  bool Wait();

  // To be polled while the compiler runs; -1 when no governor is there.
  int socket() const { return socket_; }

  // The next order that has come; kNone if there is none. When the governor is found gone,
  // kContinue: nobody else would wake a paused compiler.
  Order Next();

  void Began();

  // Tells what the compiler holds, if that is news; looks for a new governor if the last is lost.
  void Tell(uint64_t rss_bytes, double elapsed_seconds);

  // The compiler ran out of memory; the next Wait() is for its repetition.
  void Out(const char* reason, uint64_t peak_bytes);

  void End(int status, uint64_t peak_bytes, double seconds);

 private:
  bool Connect();
  void Lose();
  bool Send(const std::string& line);
  bool TakeSlot();
  bool TryLock(const std::string& path, int flags);
  void GiveSlot();

  std::string directory_;
  int slots_;
  std::string last_resort_;
  std::string ask_;
  uint64_t floor_bytes_ = 0;  // what it held when it ran out of memory
  int socket_ = -1;
  int slot_ = -1;
  std::string received_;
  uint64_t told_bytes_ = 0;
  double told_seconds_ = 0;
  double tried_seconds_ = 0;
  double lost_seconds_ = 0;
};

}  // namespace bk
