#include "wire.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bk {
namespace {

TEST(ParseOrder, KnowsEachOrderAndNothingElse) {
  EXPECT_EQ(ParseOrder("start"), Order::kStart);
  EXPECT_EQ(ParseOrder("pause"), Order::kPause);
  EXPECT_EQ(ParseOrder("continue"), Order::kContinue);
  EXPECT_EQ(ParseOrder("kill"), Order::kKill);
  EXPECT_EQ(ParseOrder("toobig"), Order::kTooBig);
  for (const char* line : {"", "star", "start ", "start\r", "Start"}) {
    EXPECT_EQ(ParseOrder(line), Order::kNone) << line;
  }
}

TEST(Escape, LeavesNothingThatSeparates) {
  EXPECT_EQ(Escape("a b/\xC3\xA9.cu"), "a b/\xC3\xA9.cu");
  EXPECT_EQ(Escape("a\tb\nc\r100%"), "a%09b%0Ac%0D100%25");
  EXPECT_EQ(Escape(std::string_view("\0\x1f\x7f", 3)), "%00%1F\x7f");
  EXPECT_EQ(Escape("\xff\xfe"), "\xff\xfe");
}

TEST(RenderAsk, NamesTheCallInOneLine) {
  const Call call{true, Language::kCuda, "a\tb.cu", "b.o"};
  EXPECT_EQ(RenderAsk("/k", call, "f00d", 4), "ask\t/k\ta%09b.cu\tb.o\tf00d\tcuda\t4");
}

TEST(RenderAsk, TellsTheKindOfCall) {
  const auto language = [](const Call& call) {
    const std::string line = RenderAsk("k", call, "f", 1);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 6);
    return Split(line, '\t').at(line.find("\t\t") == std::string::npos ? 5 : 4);
  };
  EXPECT_EQ(language({true, Language::kCuda, "x.cu", "x.o"}), "cuda");
  EXPECT_EQ(language({true, Language::kCxx, "x.cpp", "x.o"}), "c++");
  EXPECT_EQ(language({false, Language::kC, "x.c", "x.o"}), "c++");
  EXPECT_EQ(language({true, Language::kCuda, "", "lib.so"}), "link");
}

}  // namespace
}  // namespace bk
