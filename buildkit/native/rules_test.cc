#include "rules.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

const std::vector<Rule> kThreads{{"--threads=*", "--threads=1", Language::kCuda}};

TEST(ApplyRules, KnowsEverySpelling) {
  for (Args args : {Args{"--threads", "4"}, Args{"--threads=4"}, Args{"-t4"}, Args{"-t", "4"},
                    Args{"-t=4"}, Args{"-threads=4"}}) {
    EXPECT_TRUE(ApplyRules(kThreads, Language::kCuda, &args));
    EXPECT_EQ(args, (Args{"--threads=1"}));
  }
}

TEST(ApplyRules, KeepsToItsLanguage) {
  Args args{"--threads=4"};
  EXPECT_FALSE(ApplyRules(kThreads, Language::kCxx, &args));
}

TEST(ApplyRules, RemovesTheFirstArgumentToo) {
  Args args{"-lineinfo", "-lineinfo", "-c"};
  EXPECT_TRUE(ApplyRules({{"-lineinfo", "", Language::kNone}}, Language::kCuda, &args));
  EXPECT_EQ(args, (Args{"-c"}));
}

TEST(ApplyRules, LeavesOtherValuesAlone) {
  Args args{"-std=c++14"};
  EXPECT_FALSE(ApplyRules({{"-std=c++17", "-std=c++20", Language::kNone}}, Language::kCxx, &args));
}

}  // namespace
}  // namespace bk
