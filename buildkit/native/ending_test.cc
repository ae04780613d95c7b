#include "ending.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

TEST(WasKilled, SeesTheCompilersOwnDeath) { EXPECT_TRUE(WasKilled(137, "")); }

TEST(WasKilled, SeesTheDeathOfAProgramThatTheCompilerStarted) {
  EXPECT_TRUE(WasKilled(1, "g++: fatal error: Killed signal terminated program cc1plus\n"));
  EXPECT_TRUE(WasKilled(1, "collect2: fatal error: ld terminated with signal 9 [Killed]\n"));
  EXPECT_TRUE(WasKilled(9, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"));
}

TEST(WasKilled, TakesAnErrorForAnError) {
  EXPECT_FALSE(WasKilled(1, "x.cu(3): error: expected a \";\"\n"));
  EXPECT_FALSE(WasKilled(1, "nvcc error   : 'cicc' died due to signal 11 (Invalid memory)\n"));
  EXPECT_FALSE(WasKilled(2, ""));
}

TEST(WasKilled, AnotherSignalIsNoLackOfMemory) {
  EXPECT_FALSE(WasKilled(128 + 15, ""));
  EXPECT_FALSE(WasKilled(128 + 2, ""));
}

TEST(WasKilled, NeverWhenTheCallHasSucceeded) {
  EXPECT_FALSE(WasKilled(0, "warning: 'cicc' died due to signal 9"));
}

}  // namespace
}  // namespace bk
