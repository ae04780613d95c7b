#include "record.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

TEST(JsonString, EscapesWhatJsonMust) {
  EXPECT_EQ(JsonString("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(JsonString("\xC3\xA9"), "\"\xC3\xA9\"");
}

TEST(JsonString, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(JsonString("\xFFz"), "\"\\ufffdz\"");
  EXPECT_EQ(JsonString("\xC3"), "\"\\ufffd\"");
  EXPECT_EQ(JsonString("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
}

TEST(FlagsDigest, TakesNoNoticeOfPaths) {
  const Call one{true, Language::kCuda, "a.cu", "a.o"}, other{true, Language::kCuda, "b.cu", "b.o"};
  const std::string digest = FlagsDigest({"-O3", "-I/x", "-c", "a.cu", "-o", "a.o"}, one);
  EXPECT_EQ(digest, FlagsDigest({"-O3", "-I/y", "-c", "b.cu", "-o", "b.o"}, other));
  EXPECT_NE(digest, FlagsDigest({"-O2", "-I/x", "-c", "a.cu", "-o", "a.o"}, one));
}

}  // namespace
}  // namespace bk
