// The stores that wrap another: one that counts, one that fails.
#include "store/conformance.h"
#include "store/counting_store.h"
#include "store/faulty_store.h"

namespace penstock::store {

namespace {

TEST(CountingStore, CountsCallsBytesAndErrors) {
  CountingStore store(make_memory_store());
  ASSERT_THAT(store.put("k", make_bytes(100, 1)), IsOk());
  Bytes into(60);
  ASSERT_THAT(store.get("k", 0, into), IsOk());
  ASSERT_THAT(store.get("k", 60, into), IsOk());
  EXPECT_THAT(store.get("missing", 0, into), FailsWith(ErrorCode::kNotFound));
  {
    const auto upload = store.start_upload("u", {});
    ASSERT_THAT((*upload)->write(make_bytes(30, 1)), IsOk());
    ASSERT_THAT((*upload)->finish(), IsOk());
  }
  EXPECT_EQ(store.counts(CallKind::kGet).calls, 3u);
  EXPECT_EQ(store.counts(CallKind::kGet).errors, 1u);
  EXPECT_EQ(store.counts(CallKind::kGet).bytes, 100u);
  EXPECT_EQ(store.counts(CallKind::kPut).bytes, 100u);
  EXPECT_EQ(store.counts(CallKind::kUpload).calls, 3u);
  EXPECT_EQ(store.counts(CallKind::kUpload).bytes, 30u);
  EXPECT_EQ(store.counts(CallKind::kHead).calls, 0u);
  EXPECT_EQ(call_kind_name(CallKind::kUpload), "upload");
}

TEST(WrappingStores, AreWhatTheyWrap) {
  const std::unique_ptr<ObjectStore> one = make_memory_store();
  EXPECT_NE(one->identity(), make_memory_store()->identity());
  auto inner = make_memory_store();
  const std::string identity = inner->identity();
  auto counting = std::make_unique<CountingStore>(std::move(inner));
  EXPECT_EQ(counting->identity(), identity);
  EXPECT_EQ(FaultyStore(std::move(counting), {}).identity(), identity);
}

TEST(FaultyStore, FailsTheCallItIsToldTo) {
  FaultyStoreOptions options;
  options.fail_at = 2;
  options.error = make_error(ErrorCode::kIo, "broken on purpose");
  FaultyStore store(make_memory_store(), options);
  EXPECT_THAT(store.put("a", make_bytes(1, 1)), IsOk());
  EXPECT_FALSE(store.fault_hit());
  EXPECT_THAT(store.put("b", make_bytes(1, 1)), FailsWith(ErrorCode::kIo));
  EXPECT_TRUE(store.fault_hit());
  EXPECT_THAT(store.put("c", make_bytes(1, 1)), IsOk());
  EXPECT_EQ(store.calls(), 3u);
  EXPECT_THAT(store.inner().head("b"), FailsWith(ErrorCode::kNotFound));
}

TEST(FaultyStore, CanLoseTheAnswerAlone) {
  FaultyStoreOptions options;
  options.fail_at = 1;
  options.fail_after_effect = true;
  options.kinds = {CallKind::kPut};
  FaultyStore store(make_memory_store(), options);
  EXPECT_THAT(store.head("a"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(store.put("a", make_bytes(1, 1)), FailsWith(ErrorCode::kUnavailable));
  EXPECT_THAT(store.head("a"), IsOk());
  EXPECT_EQ(store.calls(), 1u);
}

TEST(FaultyStore, FailsUploadsAtAnyStep) {
  for (uint64_t step = 1; step <= 3; ++step) {
    FaultyStoreOptions options;
    options.fail_at = step;
    options.kinds = {CallKind::kUpload};
    FaultyStore store(make_memory_store(), options);
    const auto outcome = [&]() -> Result<ObjectInfo> {
      const std::unique_ptr<Upload> upload = PENSTOCK_TRY(store.start_upload("k", {}));
      PENSTOCK_TRY(upload->write(make_bytes(3, 1)));
      return upload->finish();
    };
    EXPECT_THAT(outcome(), FailsWith(ErrorCode::kUnavailable)) << step;
    EXPECT_THAT(store.head("k"), FailsWith(ErrorCode::kNotFound));
  }
}

// What the same 200 gets come to under some options.
struct Outcome {
  size_t errors = 0;
  size_t wrong = 0;
  size_t is_short = 0;
  std::string pattern;
};

Outcome run_gets(const FaultyStoreOptions& options) {
  FaultyStore store(make_memory_store(), options);
  const Bytes bytes = make_bytes(1000, 1);
  EXPECT_THAT(store.inner().put("k", bytes), IsOk());
  Outcome outcome;
  for (int i = 0; i < 200; ++i) {
    Bytes into(1000);
    const Result<GetResult> got = store.get("k", 0, into);
    outcome.errors += !got.ok();
    outcome.is_short += got.ok() && got->bytes < 1000;
    outcome.wrong += got.ok() && got->bytes == 1000 && into != bytes;
    outcome.pattern += !got.ok() ? 'e' : got->bytes < 1000 ? 's' : into != bytes ? 'w' : '.';
  }
  return outcome;
}

TEST(FaultyStore, SpoilsAboutAsManyAsAskedForAndTheSameOnesEachTime) {
  FaultyStoreOptions options;
  options.seed = 11;
  options.error_rate = 0.2;
  EXPECT_NEAR(static_cast<double>(run_gets(options).errors), 40, 20);
  EXPECT_EQ(run_gets(options).pattern, run_gets(options).pattern);
  FaultyStoreOptions other = options;
  other.seed = 12;
  EXPECT_NE(run_gets(options).pattern, run_gets(other).pattern);
  options.error_rate = 0;
  options.corrupt_rate = 0.5;
  EXPECT_NEAR(static_cast<double>(run_gets(options).wrong), 100, 30);
  options.corrupt_rate = 0;
  options.truncate_rate = 1;
  EXPECT_EQ(run_gets(options).is_short, 200u);
}

TEST(FaultyStore, DelaysUntilTheDeadlineAtMost) {
  FaultyStoreOptions options;
  options.delay_rate = 1;
  options.delay = std::chrono::seconds(60);
  FaultyStore store(make_memory_store(), options);
  CallOptions call;
  call.deadline = deadline_in(std::chrono::milliseconds(20));
  EXPECT_THAT(store.head("k", call), FailsWith(ErrorCode::kTimeout));
}

}  // namespace

}  // namespace penstock::store
