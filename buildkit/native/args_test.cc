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

}  // namespace
}  // namespace bk
