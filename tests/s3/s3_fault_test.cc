// The S3 store against a real server behind a proxy that misbehaves on command.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "s3_fixture.h"
#include "store/s3_object.h"

namespace penstock::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class S3FaultTest : public S3Test {
 protected:
  void SetUp() override {
    S3Test::SetUp();
    direct_ = open(direct_options());
    bytes_ = random_bytes(100'000, 7);
    ASSERT_TRUE(direct_->put("k", bytes_).ok());
  }
  Result<GetResult> read(ObjectStore& store, GetOptions options = {}) {
    into_.assign(bytes_.size(), std::byte{0});
    return store.get("k", 0, into_, std::move(options));
  }
  // How many requests came that have `what` in their line.
  static size_t seen(const std::string& what) {
    const std::string all = proxy_state("seen");
    size_t found = 0;
    for (size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++found;
    return found;
  }
  std::unique_ptr<S3Store> direct_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> into_;
};

// Each of these goes wrong twice and then right: the read must come out whole.
class S3RecoverTest : public S3FaultTest, public testing::WithParamInterface<const char*> {};

TEST_P(S3RecoverTest, ReadComesOutWhole) {
  S3Options options = proxy_options();
  options.stall_timeout = milliseconds(100);
  options.verify_content = true;
  const auto store = open(options);
  set_rules(fmt::format(R"([{{"match": "GET /", "times": 2, {}}}])", GetParam()));
  const uint64_t retries = s3_stats().retries;
  const auto got = read(*store);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->bytes, bytes_.size());
  EXPECT_TRUE(into_ == bytes_);
  EXPECT_EQ(s3_stats().retries - retries, 2U);
  EXPECT_EQ(seen("GET /"), 3U);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, S3RecoverTest,
    testing::Values(R"("answer": 500, "code": "InternalError")", R"("answer": 502)",
                    R"("answer": 503, "code": "ServiceUnavailable")",
                    R"("answer": 503, "code": "SlowDown")", R"("answer": 429)",
                    R"("answer": 400, "code": "RequestTimeout")", R"("reset": "before")",
                    R"("reset": "after")", R"("truncate": 5000)", R"("truncate": 0)",
                    R"("stall": 3000, "seconds": 0.6)", R"("flip": 77)",
                    R"("headers": {"Content-Range": "bytes 1-100000/100001"})",
                    R"("headers": {"Content-Range": "nonsense"})",
                    R"("headers": {"x-amz-checksum-crc32": "AAAAAA=="})",
                    R"("headers": {"ETag": "\"00000000000000000000000000000000\""})"));

TEST_F(S3FaultTest, DeclaredChecksumThatFitsIsAccepted) {
  const auto store = open(proxy_options());
  // Of parts, and so not of the object: not for us to check.
  set_rules(R"([{"match": "GET /", "headers": {"x-amz-checksum-crc32": "AAAAAA==-3"}}])");
  EXPECT_TRUE(read(*store).ok());
  ASSERT_TRUE(direct_->put("sum", as_bytes("123456789")).ok());
  set_rules(R"([{"match": "GET /", "headers": {"x-amz-checksum-crc64nvme": "rosUhgp5mIg="}}])");
  std::array<std::byte, 20> into;
  const auto got = store->get("sum", 0, into);
  EXPECT_TRUE(got.ok()) << got.error().to_string();
}

TEST_F(S3FaultTest, GivesUpAfterTheAttemptsAndSaysWhy) {
  S3Options options = proxy_options();
  options.attempts = 3;
  const auto store = open(options);
  set_rules(R"([{"answer": 500, "code": "InternalError"}])");
  const auto got = read(*store);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(got.error().retryable);
  EXPECT_THAT(got.error().detail, AllOf(HasSubstr("after 3 attempts"), HasSubstr("InternalError"),
                                        HasSubstr(prefix_ + "/k")));
  EXPECT_EQ(seen("GET /"), 3U);
}

TEST_F(S3FaultTest, AWaitThatLastsIsSaidAloudOnce) {
  S3Options options = proxy_options();
  options.attempts = 100;
  options.backoff_min = options.backoff_max = milliseconds(400);
  const auto store = open(options);
  set_rules(R"([{"answer": 500, "code": "InternalError"}])");
  std::vector<std::vector<std::byte>> memory(4, std::vector<std::byte>(bytes_.size()));
  std::vector<std::future<Result<GetResult>>> reads;
  GetOptions late;
  late.deadline = deadline_in(milliseconds(2500));
  for (auto& into : memory) {
    reads.push_back(std::async(std::launch::async, [&] { return store->get("k", 0, into, late); }));
  }
  for (auto& one : reads) EXPECT_EQ(one.get().error().code, ErrorCode::kTimeout);
  const auto said = std::count_if(log_.begin(), log_.end(), [](const std::string& line) {
    return line.find(" warn S3 request failed; trying again") != std::string::npos;
  });
  EXPECT_EQ(said, 1);
}

TEST_F(S3FaultTest, PermanentCorruptionIsAnErrorNotWrongBytes) {
  S3Options options = proxy_options();
  options.attempts = 3;
  options.verify_content = true;
  const auto store = open(options);
  set_rules(R"([{"match": "GET /", "flip": 5}])");
  EXPECT_EQ(read(*store).error().code, ErrorCode::kCorrupt);
}

TEST_F(S3FaultTest, RefusalsAreNotRetried) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "GET /", "answer": 403, "code": "AccessDenied"}])");
  EXPECT_EQ(read(*store).error().code, ErrorCode::kPermission);
  EXPECT_EQ(seen("GET /"), 1U);
}

TEST_F(S3FaultTest, WritesRecoverToo) {
  S3Options options = proxy_options();
  options.part_bytes = 5 * kMiB;
  const auto store = open(options);
  set_rules(R"([{"match": "PUT /", "times": 2, "reset": "after"},
                {"match": "uploads", "times": 1, "answer": 503, "code": "SlowDown"},
                {"match": "POST /", "times": 1, "after": 1, "answer": 500, "code": "InternalError"},
                {"match": "delete", "times": 1, "truncate": 10}])");
  ASSERT_TRUE(store->put("a", bytes_).ok());
  const auto large = random_bytes(11 * kMiB, 8);
  auto upload = *store->start_upload("b", {});
  ASSERT_TRUE(upload->write(large).ok());
  const auto info = upload->finish();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_TRUE(*read_object(*direct_, "b", kGiB) == large);
  const auto failures = store->remove(std::vector<std::string>{"a", "b"});
  ASSERT_TRUE(failures.ok()) << failures.error().to_string();
  EXPECT_EQ(direct_->head("b").error().code, ErrorCode::kNotFound);
}

// The server finished the upload, and its answer got lost: the next attempt finds no upload.
TEST_F(S3FaultTest, LostAnswerToCompletionIsRecognised) {
  S3Options options = proxy_options();
  options.part_bytes = 5 * kMiB;
  const auto store = open(options);
  set_rules(R"([{"match": "POST /", "after": 1, "times": 1, "reset": "after"}])");
  const auto large = random_bytes(11 * kMiB, 9);
  auto upload = *store->start_upload("b", {});
  ASSERT_TRUE(upload->write(large).ok());
  const auto info = upload->finish();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_EQ(info->etag, direct_->head("b")->etag);
}

TEST_F(S3FaultTest, PutIfAbsentKnowsItsOwnObject) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "PUT /", "times": 1, "reset": "after"}])");
  const auto won = store->put("once", as_bytes("x"), {{}, true});
  EXPECT_TRUE(won.ok()) << won.error().to_string();
  // The same bytes put by somebody else are not ours.
  ASSERT_TRUE(direct_->put("twice", as_bytes("x")).ok());
  set_rules(R"([{"match": "PUT /", "times": 1, "reset": "after"}])");
  const auto lost = store->put("twice", as_bytes("x"), {{}, true});
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ErrorCode::kExists);
  set_rules(
      R"([{"match": "PUT /", "times": 1, "answer": 409, "code": "ConditionalRequestConflict"}])");
  EXPECT_TRUE(store->put("third", as_bytes("x"), {{}, true}).ok());
}

TEST_F(S3FaultTest, StormOfSlowDownsIsSurvived) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "PUT /", "times": 60, "answer": 503, "code": "SlowDown"}])");
  const uint64_t slow_downs = s3_stats().slow_downs;
  constexpr int kCount = 100;
  std::latch all(kCount);
  std::atomic<int> failed{0};
  for (int i = 0; i < kCount; ++i) {
    store->async_put(fmt::format("s{}", i), as_bytes("x"), {}, [&](const Result<ObjectInfo>& info) {
      if (!info.ok()) ++failed;
      all.count_down();
    });
  }
  all.wait();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(s3_stats().slow_downs - slow_downs, 60U);
}

// One request is told to slow down; another, which was told nothing, waits as well.
TEST_F(S3FaultTest, SlowDownHoldsBackEveryRequest) {
  S3Options options = proxy_options();
  options.backoff_min = milliseconds(400);
  options.backoff_max = milliseconds(400);
  const auto store = open(options);
  ASSERT_TRUE(store->head("k").ok());
  set_rules(R"([{"match": "PUT /", "times": 1, "answer": 503, "code": "SlowDown"}])");
  std::promise<void> put_done;
  store->async_put("x", as_bytes("x"), {}, [&](const auto&) { put_done.set_value(); });
  while (seen("PUT /") == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(30));
  const auto begin = Clock::now();
  EXPECT_TRUE(store->head("k").ok());
  EXPECT_GE(Clock::now() - begin, milliseconds(120));
  put_done.get_future().wait();
  const auto later = Clock::now();
  EXPECT_TRUE(store->head("k").ok());
  EXPECT_LT(Clock::now() - later, milliseconds(400));
}

TEST_F(S3FaultTest, DeadlineIsKept) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "GET /", "stall": 10, "seconds": 5}])");
  const auto begin = Clock::now();
  GetOptions options;
  options.deadline = deadline_in(milliseconds(150));
  const auto got = read(*store, options);
  EXPECT_EQ(got.error().code, ErrorCode::kTimeout);
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
  EXPECT_LT(Clock::now() - begin, milliseconds(600));
  // Also while waiting between attempts; the reason for those is told.
  set_rules(R"([{"answer": 500, "code": "InternalError"}])");
  options.deadline = deadline_in(milliseconds(50));
  const auto failed = read(*store, options);
  EXPECT_EQ(failed.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(failed.error().detail, HasSubstr("InternalError"));
  options.deadline = Clock::now() - milliseconds(1);
  EXPECT_EQ(read(*store, options).error().code, ErrorCode::kTimeout);
}

TEST_F(S3FaultTest, CancelIsPrompt) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "GET /", "stall": 10, "seconds": 5}])");
  std::stop_source stop;
  GetOptions options;
  options.cancel = stop.get_token();
  std::thread canceller([&] {
    while (seen("GET /") == 0) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
  });
  const auto begin = Clock::now();
  const auto got = read(*store, options);
  EXPECT_EQ(got.error().code, ErrorCode::kCancelled);
  EXPECT_LT(Clock::now() - begin, milliseconds(1000));
  canceller.join();
  EXPECT_EQ(read(*store, options).error().code, ErrorCode::kCancelled);
}

TEST_F(S3FaultTest, HedgeWinsOverASlowConnection) {
  S3Options options = proxy_options();
  options.hedge_after = milliseconds(50);
  const auto store = open(options);
  set_rules(R"([{"match": "GET /", "times": 1, "delay": 3}])");
  const S3Stats before = s3_stats();
  const auto begin = Clock::now();
  const auto got = read(*store);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_LT(Clock::now() - begin, milliseconds(1500));
  EXPECT_TRUE(into_ == bytes_);
  EXPECT_EQ(s3_stats().hedges - before.hedges, 1U);
  EXPECT_EQ(s3_stats().hedges_won - before.hedges_won, 1U);
}

TEST_F(S3FaultTest, HedgeThatFailsDoesNoHarm) {
  S3Options options = proxy_options();
  options.hedge_after = milliseconds(50);
  const auto store = open(options);
  set_rules(R"([{"match": "GET /", "times": 1, "delay": 0.3},
                {"match": "GET /", "times": 1, "answer": 500, "code": "InternalError"}])");
  const S3Stats before = s3_stats();
  ASSERT_TRUE(read(*store).ok());
  EXPECT_TRUE(into_ == bytes_);
  EXPECT_EQ(s3_stats().hedges - before.hedges, 1U);
  EXPECT_EQ(s3_stats().hedges_won - before.hedges_won, 0U);
  EXPECT_EQ(s3_stats().retries - before.retries, 0U);
}

TEST_F(S3FaultTest, ConnectionsAreKept) {
  const auto store = open(proxy_options());
  set_rules("[]");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(read(*store).ok());
  const std::string all = proxy_state("seen");
  const size_t first = all.find("\", ");
  const std::string port = all.substr(first + 3, all.find(']') - first - 3);
  EXPECT_EQ(seen("\", " + port + "]"), 20U);
}

TEST_F(S3FaultTest, ClockSkewIsLearned) {
  const auto store = open(direct_options());
  store->client().set_clock_lead_s(-7200);
  const auto got = read(*store);
  EXPECT_TRUE(got.ok()) << got.error().to_string();
}

TEST_F(S3FaultTest, ClockSkewThatStaysIsExplained) {
  const auto store = open(proxy_options());
  set_rules(R"([{"answer": 403, "code": "RequestTimeTooSkewed",
                 "headers": {"Date": "Wed, 01 Jan 2020 00:00:00 GMT"}}])");
  const auto got = read(*store);
  EXPECT_EQ(got.error().code, ErrorCode::kPermission);
  EXPECT_THAT(got.error().detail,
              AllOf(HasSubstr("this machine's clock is"), HasSubstr("ahead of the server's")));
}

TEST_F(S3FaultTest, OtherRegionIsFollowedOnce) {
  const auto store = open(proxy_options());
  set_rules(R"([{"match": "GET /", "times": 1, "answer": 301, "code": "PermanentRedirect",
                 "headers": {"x-amz-bucket-region": "eu-west-3"}}])");
  const auto got = read(*store);
  EXPECT_TRUE(got.ok()) << got.error().to_string();
  // HEAD has no body to say why, so a GET asks.
  set_rules(R"([{"answer": 400, "code": "AuthorizationHeaderMalformed",
                 "headers": {"x-amz-bucket-region": "mars-1"}}])");
  const auto head = store->head("k");
  EXPECT_EQ(head.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(head.error().detail, HasSubstr("region mars-1"));
}

// A server that wants quotes around the etag says 412 though nothing changed.
TEST_F(S3FaultTest, ConditionThatTheServerMisunderstandsIsCheckedHere) {
  const auto store = open(proxy_options());
  GetOptions options;
  options.if_match = direct_->head("k")->etag;
  set_rules(R"([{"match": "GET /", "times": 1, "answer": 412, "code": "PreconditionFailed"}])");
  const auto got = read(*store, options);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_TRUE(into_ == bytes_);
  options.if_match = "another";
  EXPECT_EQ(read(*store, options).error().code, ErrorCode::kChanged);
}

TEST_F(S3FaultTest, ClockSkewFoundByManyAtOnce) {
  const auto store = open(direct_options());
  store->client().set_clock_lead_s(-7200);
  std::latch all(16);
  std::atomic<int> failed{0};
  for (int i = 0; i < 16; ++i) {
    store->async_head("k", {}, [&](const Result<ObjectInfo>& info) {
      if (!info.ok()) ++failed;
      all.count_down();
    });
  }
  all.wait();
  EXPECT_EQ(failed, 0);
}

TEST_F(S3FaultTest, DestructorWaitsForRetries) {
  auto store = open(proxy_options());
  set_rules(R"([{"match": "PUT /", "times": 3, "answer": 500, "code": "InternalError"}])");
  std::atomic<bool> put_ok{false};
  store->async_put("x", as_bytes("x"), {},
                   [&](const Result<ObjectInfo>& info) { put_ok = info.ok(); });
  store.reset();
  EXPECT_TRUE(put_ok);
}

TEST_F(S3FaultTest, UploadFailureLeavesNothing) {
  S3Options options = proxy_options();
  options.part_bytes = 5 * kMiB;
  options.attempts = 2;
  const auto store = open(options);
  set_rules(R"([{"match": "partNumber=2", "answer": 500, "code": "InternalError"}])");
  const auto large = random_bytes(16 * kMiB, 10);
  {
    auto upload = *store->start_upload("b", {});
    Result<void> written = upload->write(large);
    const auto info = upload->finish();
    EXPECT_FALSE(info.ok());
    EXPECT_EQ(direct_->head("b").error().code, ErrorCode::kNotFound);
  }
  EXPECT_GE(seen("DELETE /"), 1U);
  EXPECT_EQ(uploads_left(*direct_, "b"), 0U);
}

}  // namespace
}  // namespace penstock::store
