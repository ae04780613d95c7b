#include "stable.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

const std::vector<PrefixMap> kMaps{{"/c/slot", "/buildkit"}};

Args Flags(const std::string& compiler, const Args& args, const std::string& scratch = "/t/x") {
  return StableFlags(kMaps, Describe(compiler, args), args, "/c/slot/build", scratch);
}

TEST(StableName, IsTheSameWhereverTheBuildLies) {
  EXPECT_EQ(StableName(kMaps, "../source/a.cu", "/c/slot/build"), "/buildkit/source/a.cu");
  EXPECT_EQ(StableName(kMaps, "/c/slot/source/./a.cu", "/"), "/buildkit/source/a.cu");
  EXPECT_EQ(StableName(kMaps, "/c/slots/a.cu", "/"), "/c/slots/a.cu");
}

TEST(StableFlags, MapTheSlotForTheHostCompiler) {
  EXPECT_EQ(Flags("g++", {"-c", "a.cc", "-o", "a.o"}),
            (Args{"-ffile-prefix-map=/c/slot=/buildkit"}));
  EXPECT_EQ(Flags("g++", {"a.o", "-o", "a"}), Args{});
}

TEST(StableFlags, GiveNvccANameAndADirectory) {
  EXPECT_EQ(
      Flags("nvcc", {"-c", "../source/a.cu", "-o", "a.o"}),
      (Args{"-Xcompiler=-ffile-prefix-map=/c/slot=/buildkit", "-Xcudafe",
            "--orig_src_path_name=/buildkit/source/a.cu",
            "-Xcompiler=-ffile-prefix-map=/t/x=/buildkit/tmp", "--keep", "--keep-dir", "/t/x"}));
}

TEST(StableFlags, LeaveTheFilesThatAProjectKeeps) {
  EXPECT_EQ(Flags("nvcc", {"-c", "--keep", "a.cu", "-o", "a.o"}).back(),
            "--orig_src_path_name=/buildkit/build/a.cu");
  EXPECT_EQ(Flags("nvcc", {"-c", "a.cu", "-o", "a.o"}, "").back(),
            "--orig_src_path_name=/buildkit/build/a.cu");
}

TEST(StableFlags, NameNoUnitWhereThereMayBeSeveral) {
  EXPECT_EQ(Flags("nvcc", {"-c", "a.cu", "b.cu"}),
            (Args{"-Xcompiler=-ffile-prefix-map=/c/slot=/buildkit"}));
}

TEST(StableFlags, QuoteBlanksAndLeaveWhatCannotBeSpelled) {
  const std::vector<PrefixMap> maps{{"/a b", "/x"}, {"/c,d", "/y"}};
  const Args args{"-c", "a.cpp", "-o", "a.o"};
  EXPECT_EQ(StableFlags(maps, Describe("nvcc", args), args, "/a b", ""),
            (Args{"-Xcompiler=\"-ffile-prefix-map=/a b=/x\""}));
}

TEST(StableFlags, AreNoneWithoutAMap) {
  const Args args{"-c", "a.cu", "-o", "a.o"};
  EXPECT_EQ(StableFlags({}, Describe("nvcc", args), args, "/", "/t"), Args{});
}

}  // namespace
}  // namespace bk
