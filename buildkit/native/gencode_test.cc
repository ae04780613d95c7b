#include "gencode.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

const char kOurs[] = "-gencode=arch=compute_120,code=sm_120";

Target ForSm120(WithoutCode without = WithoutCode::kKeep) {
  return Target{{"sm_120", "sm_120a", "sm_120f"}, kOurs, without};
}

TEST(Pin, DropsEverythingElse) {
  Args args{"-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-O3", kOurs};
  EXPECT_EQ(Pin(ForSm120(), true, &args), Decision::kPinned);
  EXPECT_EQ(args, (Args{kOurs, "-O3"}));
}

TEST(Pin, KeepsEachAcceptedVariantOnce) {
  Args args{kOurs, "-gencode=arch=compute_120a,code=sm_120a", kOurs};
  EXPECT_EQ(Pin(ForSm120(), true, &args), Decision::kPinned);
  EXPECT_EQ(args, (Args{kOurs, "-gencode=arch=compute_120a,code=sm_120a"}));
}

TEST(Pin, MakesCodeOfPtxForTheTarget) {
  Args args{"-arch=compute_120", "-c"};
  EXPECT_EQ(Pin(ForSm120(), true, &args), Decision::kPinned);
  EXPECT_EQ(args, (Args{kOurs, "-c"}));
}

TEST(Pin, LeavesACallWithoutCodeAlone) {
  Args args{"-arch=sm_80"};
  EXPECT_EQ(Pin(ForSm120(), true, &args), Decision::kKept);
  EXPECT_EQ(args, (Args{"-arch=sm_80"}));
}

TEST(Pin, NeverLeavesACallWithoutATarget) {
  Args args{"-gencode=arch=compute_80,code=sm_80"};
  EXPECT_EQ(Pin(ForSm120(WithoutCode::kDrop), true, &args), Decision::kKept);
  EXPECT_EQ(args.size(), 1u);
  EXPECT_EQ(Pin(ForSm120(WithoutCode::kReplace), true, &args), Decision::kReplaced);
  EXPECT_EQ(args, (Args{kOurs}));
}

TEST(Pin, HasNothingToSayOfHostCode) {
  Args args{"-c", "x.cpp"};
  EXPECT_EQ(Pin(ForSm120(), false, &args), Decision::kNone);
}

const char kCode80[] = "-gencode=arch=compute_80,code=sm_80";
const char kCode90[] = "-gencode=arch=compute_90,code=[sm_90,compute_90]";

TEST(PassesAtOnce, OneWithoutThreadsOrWithASingleTarget) {
  EXPECT_EQ(PassesAtOnce({}), 1);
  EXPECT_EQ(PassesAtOnce({kCode80, kCode90, kOurs}), 1);
  EXPECT_EQ(PassesAtOnce({kOurs, "--threads", "8"}), 1);
  EXPECT_EQ(PassesAtOnce({"-arch=sm_90", "--threads=8"}), 1);
}

TEST(PassesAtOnce, AsManyAsThreadsAllowAndTargetsThereAre) {
  for (const char* threads : {"--threads=2", "-t=2", "-t2"}) {
    EXPECT_EQ(PassesAtOnce({kCode80, kCode90, kOurs, threads}), 2) << threads;
  }
  EXPECT_EQ(PassesAtOnce({"--threads", "2", kCode80, kCode90, kOurs}), 2);
  EXPECT_EQ(PassesAtOnce({"-t", "2", kCode80, kCode90, kOurs}), 2);
  EXPECT_EQ(PassesAtOnce({kCode80, kCode90, kOurs, "-t", "32"}), 3);
}

TEST(PassesAtOnce, ZeroThreadsMeanOneForEachTarget) {
  EXPECT_EQ(PassesAtOnce({kCode80, kCode90, "--threads", "0"}), 2);
}

TEST(PassesAtOnce, CountsEachVirtualArchitectureOnce) {
  EXPECT_EQ(PassesAtOnce({kCode90, "-gencode", "arch=compute_90,code=sm_90", "-t", "4"}), 1);
}

TEST(PassesAtOnce, WhatBeginsLikeThreadsIsSomethingElse) {
  EXPECT_EQ(PassesAtOnce({kCode80, kCode90, "-time", "-threads-per-something=4"}), 1);
  EXPECT_EQ(PassesAtOnce({kCode80, kCode90, "--threads"}), 1);
}

}  // namespace
}  // namespace bk
