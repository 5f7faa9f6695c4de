// Many calls at once, calls that come too late, and what `done` may rely on.
#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "store/conformance.h"

namespace penstock::store {

namespace {

// Counts answers, and notices one that was given from inside the call that asked.
class Answers {
 public:
  template <typename T>
  Done<T> expect() {
    ++expected_;
    const std::thread::id caller = std::this_thread::get_id();
    const size_t index = next_++;
    {
      std::lock_guard lock(mutex_);
      times_.resize(next_, 0);
    }
    return [this, caller, index](const Result<T>& result) {
      std::lock_guard lock(mutex_);
      ++times_[index];
      if (std::this_thread::get_id() == caller) ++inside_;
      if (!result.ok()) codes_.push_back(result.error().code);
      ++answered_;
      all_.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        all_.wait_for(lock, std::chrono::seconds(60), [this] { return answered_ >= expected_; }))
        << answered_ << " of " << expected_;
  }
  void expect_each_once() {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(inside_, 0u);
    for (const size_t times : times_) EXPECT_EQ(times, 1u);
  }
  std::vector<ErrorCode> codes() {
    std::lock_guard lock(mutex_);
    return codes_;
  }

 private:
  size_t next_ = 0;
  size_t expected_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
  std::vector<size_t> times_;
  std::vector<ErrorCode> codes_;
  size_t answered_ = 0;
  size_t inside_ = 0;
};

// One call of every kind.
void start_all_kinds(ObjectStore& store, const CallOptions& options, std::span<std::byte> into,
                     std::span<const std::byte> bytes, Answers& answers) {
  GetOptions get;
  static_cast<CallOptions&>(get) = options;
  PutOptions put;
  static_cast<CallOptions&>(put) = options;
  ListOptions list;
  static_cast<CallOptions&>(list) = options;
  store.async_get("k", 0, into, get, answers.expect<GetResult>());
  store.async_put("put", bytes, put, answers.expect<ObjectInfo>());
  store.async_head("k", options, answers.expect<ObjectInfo>());
  store.async_list(list, answers.expect<ListPage>());
  store.async_remove({"removed"}, options, answers.expect<std::vector<RemoveFailure>>());
  store.async_copy("k", "copied", options, answers.expect<ObjectInfo>());
  store.async_flush(options, answers.expect<void>());
}

}  // namespace

TEST_P(StoreConformance, AnswersOnceAndNotFromInsideTheCall) {
  put("k", make_bytes(1000, 1));
  const Bytes bytes = make_bytes(1000, 2);
  std::vector<Bytes> into(times(30, 5), Bytes(1000));
  Answers answers;
  for (Bytes& memory : into) start_all_kinds(*store_, {}, memory, bytes, answers);
  answers.wait();
  EXPECT_THAT(answers.codes(), ::testing::IsEmpty());
  store_.reset();  // Nothing is answered a second time later.
  answers.expect_each_once();
  for (const Bytes& memory : into) EXPECT_EQ(memory, make_bytes(1000, 1));
}

TEST_P(StoreConformance, LateCallsTimeOutAndChangeNothing) {
  put("k", make_bytes(10, 1));
  put("removed", make_bytes(10, 2));
  CallOptions options;
  options.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  Bytes into(10);
  const Bytes bytes = make_bytes(10, 3);
  Answers answers;
  start_all_kinds(*store_, options, into, bytes, answers);
  answers.wait();
  EXPECT_THAT(answers.codes(), ::testing::SizeIs(7));
  EXPECT_THAT(answers.codes(), ::testing::Each(ErrorCode::kTimeout));
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("k", "removed"));
}

TEST_P(StoreConformance, CancelledCallsChangeNothing) {
  put("k", make_bytes(10, 1));
  put("removed", make_bytes(10, 2));
  std::stop_source stop;
  stop.request_stop();
  CallOptions options;
  options.cancel = stop.get_token();
  Bytes into(10);
  const Bytes bytes = make_bytes(10, 3);
  Answers answers;
  start_all_kinds(*store_, options, into, bytes, answers);
  answers.wait();
  EXPECT_THAT(answers.codes(), ::testing::SizeIs(7));
  EXPECT_THAT(answers.codes(), ::testing::Each(ErrorCode::kCancelled));
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("k", "removed"));
}

TEST_P(StoreConformance, LateOrCancelledUploadsFail) {
  PutOptions late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto outcome = [&](const PutOptions& options) -> Result<ObjectInfo> {
    const std::unique_ptr<Upload> upload = PENSTOCK_TRY(store_->start_upload("k", options));
    PENSTOCK_TRY(upload->write(make_bytes(10, 1)));
    return upload->finish();
  };
  EXPECT_THAT(outcome(late), FailsWith(ErrorCode::kTimeout));
  std::stop_source stop;
  stop.request_stop();
  PutOptions cancelled;
  cancelled.cancel = stop.get_token();
  EXPECT_THAT(outcome(cancelled), FailsWith(ErrorCode::kCancelled));
  expect_absent("k");
}

TEST_P(StoreConformance, AnAnswerMayStartTheNextCall) {
  const size_t count = times(300, 40);
  const Bytes bytes = make_bytes(100, 1);
  put("0", bytes);
  Bytes into(100);
  std::promise<size_t> finished;
  size_t calls = 0;
  // A chain of put and get, each started by the answer of the one before.
  std::function<void()> step = [&] {
    const std::string key = std::to_string(calls % 5);
    store_->async_put(key, bytes, {}, [&, key](const Result<ObjectInfo>& put) {
      if (!put.ok()) return finished.set_value(calls);
      store_->async_get(key, 0, into, {}, [&](const Result<GetResult>& got) {
        if (!got.ok() || got->bytes != 100 || ++calls == count) return finished.set_value(calls);
        step();
      });
    });
  };
  step();
  EXPECT_EQ(finished.get_future().get(), count);
}

TEST_P(StoreConformance, AnAnswerMayStartManyCalls) {
  put("k", make_bytes(10, 1));
  const size_t count = times(6000, 100);
  Answers answers;
  std::promise<void> started;
  store_->async_head("k", {}, [&](const Result<ObjectInfo>&) {
    for (size_t i = 0; i < count; ++i) store_->async_head("k", {}, answers.expect<ObjectInfo>());
    started.set_value();
  });
  started.get_future().get();
  answers.wait();
  EXPECT_THAT(answers.codes(), ::testing::IsEmpty());
}

TEST_P(StoreConformance, TheDestructorLetsCallsFinish) {
  put("k", make_bytes(1000, 1));
  const Bytes bytes = make_bytes(1000, 2);
  std::vector<Bytes> into(times(40, 10), Bytes(1000));
  Answers answers;
  for (Bytes& memory : into) {
    GetOptions options;
    store_->async_get("k", 0, memory, options, answers.expect<GetResult>());
    store_->async_put("put", bytes, {}, answers.expect<ObjectInfo>());
    store_->async_list({}, answers.expect<ListPage>());
  }
  store_.reset();
  answers.expect_each_once();
  EXPECT_THAT(answers.codes(), ::testing::IsEmpty());
}

TEST_P(StoreConformance, OneOfManyIfAbsentPutsWins) {
  if (!store_->capabilities().put_if_absent) GTEST_SKIP() << "the store cannot";
  const std::unique_ptr<ObjectStore> other = GetParam().reopens ? bed_->open() : nullptr;
  constexpr size_t kWriters = 6;
  for (size_t round = 0; round < times(20, 4); ++round) {
    const std::string key = fmt::format("race/{}", round);
    std::atomic<size_t> won{0};
    std::atomic<size_t> lost{0};
    std::atomic<size_t> winner{0};
    std::vector<std::thread> writers;
    for (size_t i = 0; i < kWriters; ++i) {
      writers.emplace_back([&, i] {
        PutOptions options;
        options.if_absent = true;
        ObjectStore& store = other && i % 2 == 1 ? *other : *store_;
        if (i == 0) (void)store.flush();  // Moves things about meanwhile, where it does.
        const Result<ObjectInfo> put = store.put(key, make_bytes(100 + i, i), options);
        if (put.ok()) ++won, winner = i;
        if (!put.ok() && put.error().code == ErrorCode::kExists) ++lost;
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(won, 1u);
    EXPECT_EQ(lost, kWriters - 1);
    expect_object(key, make_bytes(100 + winner, winner));
  }
}

// Version v of the object is 3000 + 100 v bytes of value v: a mixture shows.
bool is_one_version(const Bytes& bytes) {
  if (bytes.size() < 3000 || bytes.size() % 100 != 0) return false;
  const auto version = static_cast<std::byte>((bytes.size() - 3000) / 100);
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == version; });
}

Bytes make_version(size_t version) {
  return Bytes(3000 + 100 * version, static_cast<std::byte>(version));
}

TEST_P(StoreConformance, ReadersNeverSeeAMixture) {
  const std::unique_ptr<ObjectStore> other = GetParam().reopens ? bed_->open() : nullptr;
  put("k", make_version(0));
  std::atomic<bool> stop{false};
  std::atomic<size_t> reads{0};
  std::atomic<size_t> bad{0};
  std::vector<std::thread> readers;
  for (size_t i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      ObjectStore& store = other && i % 2 == 1 ? *other : *store_;
      Bytes bytes(20000);
      while (!stop) {
        const Result<GetResult> got = store.get("k", 0, bytes);
        // Never absent, never mixed; a tree that changes all the time may say so.
        if (!got.ok() && got.error().code == ErrorCode::kChanged) continue;
        const bool good =
            got.ok() && got->bytes == got->info.size &&
            is_one_version({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got->bytes)});
        ++(good ? reads : bad);
      }
    });
  }
  std::vector<std::thread> writers;
  for (size_t i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] {
      for (size_t version = i; version < times(150, 20); version += 2) {
        if (!store_->put("k", make_version(version % 100)).ok()) ++bad;
        if (version % 16 == 0 && !store_->flush().ok()) ++bad;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  while (reads < 10 && bad == 0) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(bad, 0u);
  EXPECT_GE(reads, 10u);
}

TEST_P(StoreConformance, ReadsWithIfMatchStayInOneVersion) {
  put("k", make_version(0));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (size_t version = 1; !stop; ++version) (void)store_->put("k", make_version(version % 100));
  });
  size_t same = 0;
  size_t changed = 0;
  for (size_t i = 0; i < times(200, 20); ++i) {
    Bytes bytes(1000);
    const Result<GetResult> first = store_->get("k", 0, std::span(bytes).first(500));
    if (!first.ok()) continue;
    GetOptions options;
    options.if_match = first->info.etag;
    const Result<GetResult> second = store_->get("k", 500, std::span(bytes).last(500), options);
    if (!second.ok()) {
      EXPECT_THAT(second, FailsWith(ErrorCode::kChanged));
      ++changed;
      continue;
    }
    ++same;
    EXPECT_EQ(bytes.front(), bytes.back());
  }
  stop = true;
  writer.join();
  EXPECT_GT(same + changed, 0u);
}

TEST_P(StoreConformance, RandomOperationsMatchAModel) {
  for (uint64_t seed = 1; seed <= times(8, 1); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    start_afresh();
    std::map<std::string, Bytes> model;
    const std::vector<std::string> keys = random_keys(random, 12);
    for (size_t step = 0; step < times(250, 150) && !HasFailure(); ++step) {
      const std::string& key = keys[random() % keys.size()];
      const std::string& other = keys[random() % keys.size()];
      const Bytes bytes = make_bytes(random() % 3000, random());
      switch (random() % 10) {
        case 0:
        case 1:
          ASSERT_THAT(store_->put(key, bytes), IsOk());
          model[key] = bytes;
          break;
        case 2: {
          PutOptions options;
          options.if_absent = true;
          if (!store_->capabilities().put_if_absent) break;
          const Result<ObjectInfo> put = store_->put(key, bytes, options);
          ASSERT_EQ(put.ok(), !model.contains(key));
          model.try_emplace(key, bytes);
          break;
        }
        case 3:
          ASSERT_THAT(store_->remove(std::vector<std::string>{key, other}), IsOk());
          model.erase(key);
          model.erase(other);
          break;
        case 4: {
          const Result<ObjectInfo> copied = store_->copy(key, other);
          ASSERT_EQ(copied.ok(), model.contains(key));
          if (copied.ok()) model[other] = Bytes(model[key]);
          break;
        }
        case 5:
          ASSERT_THAT(store_->flush(), IsOk());
          break;
        case 6: {
          const Result<std::unique_ptr<Upload>> upload = store_->start_upload(key, {});
          ASSERT_THAT(upload, IsOk());
          ASSERT_THAT((*upload)->write(bytes), IsOk());
          if (random() % 3 == 0) break;
          ASSERT_THAT((*upload)->finish(), IsOk());
          model[key] = bytes;
          break;
        }
        case 7:
          if (!GetParam().reopens || random() % 4 != 0) break;
          store_.reset();
          store_ = bed_->open();
          break;
        default:
          if (model.contains(key)) expect_object(key, model[key]);
          if (!model.contains(key)) expect_absent(key);
      }
    }
    std::vector<std::string> expected;
    for (const auto& [key, bytes] : model) expected.push_back(key);
    EXPECT_EQ(all_keys(), expected);
    for (const auto& [key, bytes] : model) expect_object(key, bytes);
  }
}

}  // namespace penstock::store
