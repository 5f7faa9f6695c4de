#include "volume/pending_age.h"

#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

TEST(PendingAge, IsThatOfTheOldestContentThatIsStillNeeded) {
  io::MemoryFileSystem fs;
  HostOptions options = quiet_options(fs);
  meta::Time now = 1'000'000'000;
  options.now = [&now] { return now; };
  auto host = *create_host(kHostPath, {.name = "v"}, options);
  EXPECT_EQ(host->status()->pending.oldest, 0);
  auto volume = *host->open("v");
  const meta::Ino first = make_file(*volume, "a");
  const meta::Ino second = make_file(*volume, "b");
  now = 2'000'000'000;
  ASSERT_THAT(volume->write(first, 0, bytes_of("first")), IsOk());
  now = 3'000'000'000;
  ASSERT_THAT(volume->write(second, 0, bytes_of("second")), IsOk());
  ASSERT_THAT(host->commit(), IsOk());
  now = 9'000'000'000;
  EXPECT_EQ(host->status()->pending.oldest, 2'000'000'000);
  // The next owner knows as much: what is committed too, which no replay brings back.
  volume.reset();
  host.reset();
  host = *open_host(kHostPath, options);
  volume = *host->open("v");
  EXPECT_EQ(host->status()->pending.oldest, 2'000'000'000);
  ASSERT_THAT(volume->unlink(meta::kRoot, "a"), IsOk());
  for (int i = 0; i < 3; ++i) {
    now += 1'000'000'000;
    ASSERT_THAT(host->commit(), IsOk());
  }
  EXPECT_EQ(host->status()->pending.oldest, 3'000'000'000);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(host->status()->pending.oldest, 0);
}

TEST(PendingAge, IsRestoredByAReplay) {
  io::MemoryFileSystem fs;
  HostOptions options = quiet_options(fs);
  meta::Time now = 5'000'000'000;
  options.now = [&now] { return now; };
  auto host = *create_host(kHostPath, {.name = "v"}, options);
  auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  ASSERT_THAT(volume->write(file, 0, bytes_of("x")), IsOk());
  volume.reset();
  host.reset();  // Without threads nothing is committed at its end.
  now = 500'000'000'000;
  host = *open_host(kHostPath, options);
  EXPECT_EQ(host->status()->pending.oldest, 5'000'000'000);
}

}  // namespace
}  // namespace penstock::volume
