#include "args.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

TEST(ParseResponse, SplitsAtBlanksAndKeepsWhatIsProtected) {
  EXPECT_EQ(ParseResponse("-a  \"b c\"\n'd \"e' f\\ g"), (Args{"-a", "b c", "d \"e", "f g"}));
  EXPECT_EQ(ParseResponse(""), Args{});
  EXPECT_EQ(ParseResponse("''"), Args{""});
}

TEST(Split, KeepsWhatIsInBrackets) {
  EXPECT_EQ(Split("arch=compute_90,code=[sm_90,compute_90]", ','),
            (std::vector<std::string>{"arch=compute_90", "code=[sm_90,compute_90]"}));
}

TEST(Describe, FindsSourceOutputAndLanguage) {
  const Call call = Describe("/opt/cuda/bin/nvcc", {"-I", "a.cpp", "-c", "x.cu", "-o", "x.o"});
  EXPECT_TRUE(call.is_nvcc);
  EXPECT_EQ(call.source, "x.cu");
  EXPECT_EQ(call.output, "x.o");
  EXPECT_EQ(call.language, Language::kCuda);
}

TEST(Describe, TakesAProbeForNoCompilation) {
  EXPECT_EQ(Describe("gcc", {"-E", "x.c"}).source, "");
  EXPECT_EQ(Describe("gcc", {"--version"}).source, "");
}

TEST(Describe, BelievesTheLanguageThatIsForced) {
  EXPECT_EQ(Describe("nvcc", {"-x", "cu", "-c", "x.cpp"}).language, Language::kCuda);
}

TEST(WithJobs, SetsItWhateverTheProjectHasComputed) {
  for (const Args& args : {Args{"all"}, Args{"-j8", "all"}, Args{"-j", "8", "all"},
                           Args{"--jobs=8", "all"}, Args{"--jobs", "8", "all"}, Args{"-j", "all"},
                           Args{"all", "-j"}, Args{"-j1", "all", "-j2"}}) {
    EXPECT_EQ(WithJobs(args, 64), (Args{"-j64", "all"}));
  }
  EXPECT_EQ(WithJobs({}, 64), (Args{"-j64"}));
}

TEST(WithJobs, TakesTheLoadLimitAway) {
  for (const Args& args : {Args{"-l", "2.5", "all"}, Args{"-l2", "all"}, Args{"-l", "all"},
                           Args{"--load-average=2", "all"}, Args{"--max-load", "2", "all"}}) {
    EXPECT_EQ(WithJobs(args, 64), (Args{"-j64", "all"}));
  }
}

TEST(WithJobs, LeavesEverythingElse) {
  const Args args{"-C", "build", "-k0", "-jobs", "--just-print", "-lm", "j8", "-v"};
  Args expected = args;
  expected.insert(expected.begin(), "-j64");
  EXPECT_EQ(WithJobs(args, 64), expected);
  EXPECT_EQ(WithJobs({"-k", "--", "-j8"}, 64), (Args{"-j64", "-k", "--", "-j8"}));
}

TEST(WithJobs, DoesNothingWithoutANumber) {
  EXPECT_EQ(WithJobs({"-j8", "-l2"}, 0), (Args{"-j8", "-l2"}));
}

}  // namespace
}  // namespace bk
