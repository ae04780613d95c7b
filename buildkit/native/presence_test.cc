#include "presence.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "files.h"

namespace bk {
namespace {

std::vector<std::string> Names(std::string_view source) {
  bool has_other = false;
  std::vector<std::string> names;
  for (const Spelled& spelled : ParseSpelled(source, &has_other)) names.push_back(spelled.name);
  return names;
}

TEST(ParseSpelled, ReadsDirectivesOfAllKinds) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(Names("#include <a/b.h>\n  #  include \"c.h\"\nint x = 1 < 2;\n"),
            (Found{"a/b.h", "c.h"}));
  EXPECT_EQ(Names("#if 0\n#include <never.h>\n#endif\n"), Found{"never.h"});
  EXPECT_EQ(Names("#if __has_include(<a.h>) && \\\n  __has_include(\"b.h\")\n#endif\n"),
            (Found{"a.h", "b.h"}));
  EXPECT_EQ(Names("#define HEADER <config.h>\n#include HEADER\n"), Found{"config.h"});
  EXPECT_EQ(Names("/* */#include <after.h>\n"), Found{"after.h"});
}

TEST(ParseSpelled, NoticesWhatNoDependencyFileTells) {
  bool has_other = false;
  ParseSpelled("int x;", &has_other);
  EXPECT_FALSE(has_other);
  ParseSpelled("asm(\".incbin \\\"f\\\"\");", &has_other);
  EXPECT_TRUE(has_other);
}

TEST(ParseDependencies, ReadsMakesForm) {
  EXPECT_EQ(ParseDependencies("a.o: a.cu \\\n with\\ blank.h dollar$$.h\n\nb.h:\n"),
            (std::vector<std::string>{"a.cu", "with blank.h", "dollar$.h"}));
}

class PresenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/presence_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    for (const char* part : {"/one", "/two"}) mkdir((folder_ + part).c_str(), 0700);
    Put("a.cc", "#include <b.h>\n#if __has_include(\"c.h\")\n#endif\n");
    Put("two/b.h", "");
    Put("a.d", "a.o: " + folder_ + "/a.cc " + folder_ + "/two/b.h\n");
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder_ + "/" + name, text));
  }

  std::string Now() {
    return Presence(folder_ + "/a.d", {folder_ + "/one", folder_ + "/two"}, {},
                    {{folder_, "/buildkit"}}, folder_);
  }

  std::string folder_;
};

TEST_F(PresenceTest, ChangesWhenAHeaderComesEarlier) {
  const std::string before = Now();
  EXPECT_EQ(Now(), before);
  Put("one/unrelated.h", "");
  EXPECT_EQ(Now(), before);
  Put("one/b.h", "");
  EXPECT_NE(Now(), before);
}

TEST_F(PresenceTest, ChangesWhenAHeaderComesThatWasAskedFor) {
  const std::string before = Now();
  Put("c.h", "");
  EXPECT_NE(Now(), before);
}

TEST_F(PresenceTest, IsEmptyWhereItCannotBeTold) {
  EXPECT_NE(Now(), "");
  Put("a.cc", "asm(\".incbin \\\"f\\\"\");");
  EXPECT_EQ(Now(), "");
  std::filesystem::remove(folder_ + "/a.cc");
  EXPECT_EQ(Now(), "");
  std::filesystem::remove(folder_ + "/a.d");
  EXPECT_EQ(Now(), "");
}

}  // namespace
}  // namespace bk
