#include "sync/stripe.h"

#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Striper, RunsLfsOnADirectory) {
  std::vector<std::vector<std::string>> ran;
  const Runner runner = [&](const std::vector<std::string>& words) -> Result<int> {
    ran.push_back(words);
    return ran.size() == 1 ? 0 : 3;
  };
  const Result<Striper> striper = Striper::create(8, "/lustre/x", "lustre", "/usr/bin/lfs", runner);
  ASSERT_THAT(striper, IsOk());
  EXPECT_THAT(striper->apply("/lustre/x/a b;rm"), IsOk());
  EXPECT_THAT(ran, ElementsAre(ElementsAre("/usr/bin/lfs", "setstripe", "-c", "8", "--",
                                           "/lustre/x/a b;rm")));
  const Result<void> failed = striper->apply("/lustre/x");
  ASSERT_THAT(failed, FailsWith(ErrorCode::kIo));
  EXPECT_THAT(failed.error().detail, HasSubstr("status 3"));
}

TEST(Striper, IsRefusedElsewhere) {
  EXPECT_THAT(Striper::create(8, "/x", "ext4", "/usr/bin/lfs"), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(Striper::create(8, "/x", "", "/usr/bin/lfs"), FailsWith(ErrorCode::kUnsupported));
  EXPECT_THAT(Striper::create(8, "/x", "lustre", ""), FailsWith(ErrorCode::kUnsupported));
  for (const int64_t count : {0, -2, 2001}) {
    EXPECT_THAT(Striper::create(count, "/x", "lustre", "lfs"), FailsWith(ErrorCode::kInvalid));
  }
  EXPECT_THAT(Striper::create(-1, "/x", "lustre", "lfs"), IsOk());
}

TEST(Striper, RunsProgramsWithoutAShell) {
  EXPECT_EQ(*run_program({"/bin/sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(*run_program({"/bin/sh", "-c", "kill -9 $$"}), 128 + 9);
  EXPECT_EQ(*run_program({"/bin/sh", "-c", "[ \"$1\" = '; exit 5' ]", "sh", "; exit 5"}), 0);
  EXPECT_THAT(run_program({"/no/such/program"}), FailsWith(ErrorCode::kNotFound));
}

TEST(Striper, FindsPrograms) {
  EXPECT_EQ(find_program("sh", "/nowhere::/bin:/usr/bin"), "/bin/sh");
  EXPECT_EQ(find_program("no-such-program", "/bin:/usr/bin"), "");
  EXPECT_EQ(find_program("sh", ""), "");
}

}  // namespace

}  // namespace penstock::sync
