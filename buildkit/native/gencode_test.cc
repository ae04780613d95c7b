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

}  // namespace
}  // namespace bk
