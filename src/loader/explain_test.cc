#include "loader/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::loader {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Ten seconds of two threads, with nothing going on.
Report idle_report() {
  Report report;
  report.batches = 100;
  report.samples = 25'600;
  report.bytes_read = 2'560'000'000;
  report.elapsed = seconds(10);
  report.threads = 2;
  report.worker_wait = seconds(20);
  report.next_total = seconds(9);
  report.away_total = seconds(1);
  return report;
}

TEST(Explain, NamesTheStageThatIsTheLimit) {
  Report decode = idle_report();
  decode.decode_busy = std::chrono::milliseconds(19'600);
  decode.storage_busy = seconds(4);
  EXPECT_EQ(explain(decode).limit, Limit::kDecode);
  EXPECT_THAT(explain(decode).verdict, HasSubstr("2 threads at 98 %, storage idle 60 %"));

  Report storage = idle_report();
  storage.storage_busy = seconds(10);
  EXPECT_EQ(explain(storage).limit, Limit::kStorage);
  EXPECT_THAT(explain(storage).verdict, HasSubstr("256 MB/s"));

  Report read = idle_report();
  read.read_busy = seconds(19);
  EXPECT_EQ(explain(read).limit, Limit::kRead);

  Report memory = idle_report();
  memory.memory_wait = seconds(8);
  EXPECT_EQ(explain(memory).limit, Limit::kMemory);

  Report plan = idle_report();
  plan.plan_busy = seconds(10);
  EXPECT_EQ(explain(plan).limit, Limit::kPlan);

  EXPECT_EQ(explain(idle_report()).limit, Limit::kLatency);
}

TEST(Explain, ALoaderThatKeepsUpIsLeftAlone) {
  Report report = idle_report();
  report.next_total = std::chrono::milliseconds(100);
  report.away_total = seconds(10);
  report.decode_busy = seconds(20);
  EXPECT_EQ(explain(report).limit, Limit::kConsumer);
  EXPECT_TRUE(explain(report).advice.empty());
}

TEST(Explain, MeasuresAgainstTheStep) {
  const Report report = idle_report();  // 2,560 samples/s.
  EXPECT_THAT(explain(report, std::chrono::milliseconds(200), 256).verdict,
              HasSubstr("fast enough"));
  EXPECT_THAT(explain(report, std::chrono::milliseconds(10), 256).verdict,
              HasSubstr("a step of 10 ms wants 25.6 k samples/s"));
}

TEST(Explain, SaysNothingOfNothing) {
  EXPECT_EQ(explain(Report{}).limit, Limit::kNothing);
  EXPECT_THAT(to_text(Report{}, explain(Report{})), HasSubstr("run it for longer"));
}

}  // namespace
}  // namespace penstock::loader
