#include "cacheable.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "files.h"

namespace bk {
namespace {

// A directory with the compilers of a configuration.
class CacheableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/cacheable_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    for (const char* tool : {"nvcc", "gcc", "g++", "other"}) {
      ASSERT_TRUE(WriteFile(folder_ + "/" + tool, tool));
    }
    for (const char* tool : {"nvcc", "gcc", "g++"}) {
      config_.tools.emplace_back(tool, folder_ + "/" + tool);
    }
    config_.maps = {{"/c/slot", "/buildkit"}};
    config_.engine.toolchain = "digest";
    config_.engine.search = {"/usr/include"};
    environment_["PATH"] = folder_;
  }

  void TearDown() override {
    for (const char* tool : {"nvcc", "gcc", "g++", "other"}) {
      unlink((folder_ + "/" + tool).c_str());
    }
    rmdir(folder_.c_str());
  }

  Cacheable Judged(const std::string& tool, Args args) {
    const std::string compiler = folder_ + "/" + tool;
    args.insert(args.end(), {"-c", "a.cu", "-o", "a.o"});
    return Judge(config_, compiler, args, Describe(compiler, args), environment_, "/t/spare.d");
  }

  std::string IdentityIn(const std::string& directory, Args args) {
    const std::string compiler = folder_ + "/g++";
    args.insert(args.end(), {"-c", "a.cc", "-o", "a.o"});
    const Call call = Describe(compiler, args);
    const Cacheable cacheable = Judge(config_, compiler, args, call, environment_, "/t/spare.d");
    EXPECT_EQ(cacheable.refusal, "");
    return Identity(config_, cacheable, call, environment_, directory);
  }

  std::string folder_;
  Config config_;
  Environment environment_;
};

TEST_F(CacheableTest, TakesWhatProjectsUse) {
  EXPECT_EQ(Judged("nvcc", {"-O3", "-DNDEBUG", "-Xcompiler=-fPIC", "--expt-relaxed-constexpr",
                            "-gencode=arch=compute_120,code=sm_120", "-std=c++17"})
                .refusal,
            "");
  EXPECT_EQ(Judged("nvcc", {"-Xcompiler", "-fPIC,-Wall", "-rdc=true"}).refusal, "");
  EXPECT_EQ(Judged("g++", {"-O2", "-fvisibility=hidden", "-march=x86-64-v3"}).refusal, "");
}

TEST_F(CacheableTest, RefusesWhatReadsOrWritesMore) {
  for (const char* arg :
       {"--fdevice-time-trace=f", "--time=f", "--keep", "-save-temps", "-ptx", "-cubin", "-pch",
        "-Xcompiler=-fprofile-use", "-Xcompiler=-Wp,-DX", "-Xptxas=--options-file=f",
        "--pre-include=f", "-include=f", "-Xcompiler=@f", "-arch=native", "-libdevice-directory=d",
        "@flags", "-", "-qpp-config=f"}) {
    EXPECT_NE(Judged("nvcc", {arg}).refusal, "") << arg;
  }
  for (const char* arg : {"-fprofile-use", "-fplugin=x", "-specs=x", "--sysroot=/x", "-B/x",
                          "-Wa,-I/x", "-march=native", "-fmodules-ts", "-gsplit-dwarf", "-M", "-da",
                          "-imacros", "-includef", "-aux-info"}) {
    EXPECT_NE(Judged("g++", {arg}).refusal, "") << arg;
  }
}

TEST_F(CacheableTest, RefusesFilesForOtherPrograms) {
  EXPECT_EQ(Judged("nvcc", {"-Xptxas", "-O3,-v", "-Xcudafe", "--diag_suppress=177"}).refusal, "");
  EXPECT_NE(Judged("nvcc", {"-Xptxas", "--options-file=f"}).refusal, "");
  EXPECT_NE(Judged("nvcc", {"-Xptxas", "-optf", "-Xptxas", "f"}).refusal, "");
  EXPECT_EQ(Judged("nvcc", {"-include", "a.h"}).refusal, "");
  EXPECT_NE(Judged("nvcc", {"-include", "a.h,b.h"}).refusal, "");
}

TEST_F(CacheableTest, RefusesCompilersThatAreNotKnown) {
  EXPECT_NE(Judged("other", {}).refusal, "");
  EXPECT_NE(Judged("nvcc", {"-ccbin", folder_ + "/other"}).refusal, "");
  EXPECT_EQ(Judged("nvcc", {"-ccbin", folder_ + "/g++"}).refusal, "");
  environment_["NVCC_APPEND_FLAGS"] = "-ccbin=" + folder_ + "/other";
  EXPECT_NE(Judged("nvcc", {}).refusal, "");
  environment_.erase("NVCC_APPEND_FLAGS");
  environment_["PATH"] = "/nowhere";
  EXPECT_NE(Judged("nvcc", {}).refusal, "");
}

TEST_F(CacheableTest, RefusesVariablesThatAreNotFollowed) {
  for (const char* name : {"INCLUDES", "SYSTEM_INCLUDES", "COMPILER_PATH", "NVCC_CCBIN",
                           "DEPENDENCIES_OUTPUT", "GCC_EXEC_PREFIX", "LD_PRELOAD"}) {
    environment_[name] = "x";
    EXPECT_NE(Judged("nvcc", {}).refusal, "") << name;
    environment_.erase(name);
  }
}

TEST_F(CacheableTest, AsksForAFileOfAllHeaders) {
  const Cacheable spare = Judged("g++", {"-O2"});
  EXPECT_EQ(spare.depfile, "/t/spare.d");
  EXPECT_EQ(spare.args, (Args{"-MD", "-MF", "/t/spare.d", "-O2", "-c", "a.cu", "-o", "a.o"}));
  const Cacheable given = Judged("nvcc", {"-MMD", "-MF", "a.d"});
  EXPECT_EQ(given.depfile, "a.d");
  EXPECT_EQ(given.args, (Args{"-MD", "-MF", "a.d", "-c", "a.cu", "-o", "a.o"}));
  EXPECT_NE(Judged("nvcc", {"-MD"}).refusal, "");
}

TEST_F(CacheableTest, KnowsWhereHeadersAreLookedFor) {
  environment_["CPATH"] = "/p:/q";
  environment_["NVCC_PREPEND_FLAGS"] = "-I/before";
  EXPECT_EQ(
      Judged("nvcc", {"-I/a,/b", "-isystem", "/c", "--include-path=/d"}).search,
      (std::vector<std::string>{"/before", "/a", "/b", "/c", "/d", "/p", "/q", "/usr/include"}));
}

TEST_F(CacheableTest, IsTheSameCallInAnotherPlace) {
  const std::string here = IdentityIn("/c/slot/build", {"-I/c/slot/source", "-DX"});
  config_.maps = {{"/elsewhere", "/buildkit"}};
  EXPECT_EQ(IdentityIn("/elsewhere/build", {"-I/elsewhere/source", "-DX"}), here);
}

TEST_F(CacheableTest, TellsCallsApart) {
  const std::string first = IdentityIn("/c/slot/build", {});
  EXPECT_EQ(IdentityIn("/c/slot/build", {}), first);
  EXPECT_NE(IdentityIn("/c/slot/other", {}), first);
  for (const char* name : {"CPATH", "PTXAS_FLAGS", "CUDAFE_FLAGS", "NVCC_APPEND_FLAGS",
                           "SOURCE_DATE_EPOCH", "LC_ALL", "ANYTHING_FLAGS"}) {
    environment_[name] = "x";
    EXPECT_NE(IdentityIn("/c/slot/build", {}), first) << name;
    environment_.erase(name);
  }
  environment_["EDITOR"] = "x";
  EXPECT_EQ(IdentityIn("/c/slot/build", {}), first);
  config_.engine.toolchain = "another";
  EXPECT_NE(IdentityIn("/c/slot/build", {}), first);
}

TEST_F(CacheableTest, HoldsNothingThatACacheWouldExpand) {
  environment_["CPATH"] = "/a $HOME \"b\"\n";
  const std::string identity = IdentityIn("/c/slot/build", {});
  EXPECT_EQ(identity.find_first_of(" $\"\n"), std::string::npos);
}

}  // namespace
}  // namespace bk
