#include "task.h"

#include <gtest/gtest.h>

namespace bk {
namespace {

TEST(Task, SurvivesItsText) {
  Task task;
  task.compiler = "/usr/bin/g++";
  task.args = {"-c", "a b.cc", "", "-o", "a.o"};
  task.decision = Decision::kNone;
  task.flags = "digest";
  task.objects = "miss";
  task.depfile = "a.d";
  task.search = {"/one", "/two words"};
  const std::optional<Task> again = ParseTask(RenderTask(task));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->compiler, task.compiler);
  EXPECT_EQ(again->args, task.args);
  EXPECT_EQ(again->decision, task.decision);
  EXPECT_EQ(again->flags, task.flags);
  EXPECT_EQ(again->objects, task.objects);
  EXPECT_EQ(again->depfile, task.depfile);
  EXPECT_EQ(again->search, task.search);
  EXPECT_EQ(again->call.output, "a.o");
}

TEST(Task, IsNotReadFromAnythingElse) {
  EXPECT_FALSE(ParseTask(""));
  EXPECT_FALSE(ParseTask("some text"));
}

}  // namespace
}  // namespace bk
