// What the tests of a tier share: a keeper that only counts, and a tier with blocking calls.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cache/testing.h"
#include "cache/tier.h"
#include "penstock/buffer.h"

namespace penstock::cache {

// What the keepers of a tier were told. Outlives them.
struct Notes {
  std::mutex mutex;
  bool room = true;
  int reserved = 0;  // Less those added or cancelled.
  uint64_t added = 0;
  uint64_t cancelled = 0;
  uint64_t dropped = 0;
  uint64_t used = 0;
  uint64_t used_bytes = 0;
  uint64_t started = 0;
  uint64_t quota_bytes = 0;
  std::function<void(const Error&)> on_error;

  template <typename T>
  T get(T Notes::*field) {
    std::lock_guard lock(mutex);
    return this->*field;
  }
};

class CountingKeeper final : public Keeper {
 public:
  explicit CountingKeeper(std::shared_ptr<Notes> notes) : notes_(std::move(notes)) {}

  bool reserve(const EntryName&) override {
    std::lock_guard lock(notes_->mutex);
    notes_->reserved += notes_->room ? 1 : 0;
    return notes_->room;
  }
  void cancel_fill(const EntryName&) override {
    std::lock_guard lock(notes_->mutex);
    --notes_->reserved;
    ++notes_->cancelled;
  }
  void note_added(const EntryName&) override {
    std::lock_guard lock(notes_->mutex);
    --notes_->reserved;
    ++notes_->added;
  }
  void note_dropped(const EntryName&) override {
    std::lock_guard lock(notes_->mutex);
    ++notes_->dropped;
  }
  void note_used(const EntryId&, uint64_t bytes) override {
    std::lock_guard lock(notes_->mutex);
    ++notes_->used;
    notes_->used_bytes += bytes;
  }
  void note_missed(const EntryId&, uint64_t) override {}
  void note_expected(const EntryId&) override {}
  void note_finished(const EntryId&, bool) override {}
  void count_read(uint64_t, uint64_t) override {}
  void count_anew() override {}
  uint64_t room_bytes() const override { return kGiB; }
  void set_quota(SizeOrPercent quota) override {
    std::lock_guard lock(notes_->mutex);
    notes_->quota_bytes = quota.bytes;
  }
  KeeperStatus status() const override { return {.known = true}; }
  Result<void> settle(Deadline) override { return {}; }

 private:
  const std::shared_ptr<Notes> notes_;
};

// The lines of the log at warn and above, while it lives.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](std::string_view line) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~LogLines() { set_log_sink(nullptr); }
  std::vector<std::string> get() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Entry number `n` of some object.
inline EntryKey entry_key(uint32_t n, uint32_t length = 40'000) {
  return {
      {"s3://bucket/shard.tar", "\"etag\"", uint64_t{1} << 40}, uint64_t{n} * 16 * kMiB, length};
}

inline std::string entry_data(const EntryKey& key) {
  std::minstd_rand random(static_cast<unsigned>(key.offset / kMiB + key.length));
  std::vector<uint32_t> words(key.length / sizeof(uint32_t) + 1);
  std::ranges::generate(words, [&] { return static_cast<uint32_t>(random()); });
  return {reinterpret_cast<const char*>(words.data()), key.length};
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// Long times: what is slow here is a sanitizer, not a drive. Never checks: the calls that reach the
// file system are those of the test.
inline TierOptions patient_options(std::string path = "/cache") {
  TierOptions options;
  options.path = std::move(path);
  options.slow_after = std::chrono::minutes(5);
  options.retry_every = std::chrono::hours(1);
  return options;
}

// A tier, its memory and its keepers' notes.
class TestTier {
 public:
  enum class Keepers { kCounting, kReal };

  explicit TestTier(io::FileSystem& fs, TierOptions options = patient_options(),
                    uint64_t memory_bytes = 64 * kMiB, Keepers keepers = Keepers::kCounting)
      : path_(options.path) {
    io::BufferOptions memory;
    memory.budget_bytes = memory_bytes;
    buffers_ = io::BufferProvider::create(memory).value();
    if (keepers == Keepers::kCounting) options.start_keeper = counting_keepers();
    tier_ = Tier::open(fs, std::move(options), buffers_);
    first_try_ = tier_->wait_tried(kNoDeadline);
  }

  Tier& tier() { return *tier_; }
  Notes& notes() { return *notes_; }
  io::BufferProvider& buffers() { return *buffers_; }
  const Result<void>& first_try() const { return first_try_; }
  bool on() const { return tier_->on(); }
  void close() { tier_.reset(); }

  std::string file_of(const EntryKey& key) const {
    const std::string name = name_of(key).text();
    return path_ + "/entries/" + name.substr(0, 2) + "/" + name;
  }

  using Read = std::future<Result<std::string>>;
  Read start_read(const EntryKey& key, uint32_t begin, uint32_t length) {
    auto answer = std::make_shared<std::promise<Result<std::string>>>();
    Read future = answer->get_future();
    tier_->read(key, version_id(key.version), begin, length, [answer](Result<TierBytes> bytes) {
      if (!bytes.ok()) return answer->set_value(bytes.error());
      answer->set_value(
          std::string(reinterpret_cast<const char*>(bytes->data.data()), bytes->data.size()));
    });
    return future;
  }
  Result<std::string> read(const EntryKey& key, uint32_t begin, uint32_t length) {
    return start_read(key, begin, length).get();
  }
  Result<std::string> read(const EntryKey& key) { return read(key, 0, key.length); }

  std::shared_ptr<io::Buffer> make_file(const EntryKey& key) {
    auto file = std::make_shared<io::Buffer>(buffers_->take(file_bytes(key)).value());
    const std::string data = entry_data(key);
    std::ranges::copy(std::as_bytes(std::span(data)), file->data() + header_bytes(key));
    return file;
  }
  using Fill = std::future<Result<void>>;
  Fill start_fill(const EntryKey& key) {
    auto answer = std::make_shared<std::promise<Result<void>>>();
    Fill future = answer->get_future();
    tier_->fill(key, version_id(key.version), make_file(key),
                [answer](Result<void> filled) { answer->set_value(std::move(filled)); });
    return future;
  }
  // Reserves and fills.
  Result<void> fill(const EntryKey& key) {
    if (!tier_->reserve(key, version_id(key.version)))
      return make_error(ErrorCode::kNoSpace, "not reserved");
    return start_fill(key).get();
  }

 private:
  std::function<std::unique_ptr<Keeper>(CacheDirectory&, KeeperOptions)> counting_keepers() {
    return [notes = notes_](CacheDirectory&, KeeperOptions keeper) {
      std::lock_guard lock(notes->mutex);
      notes->on_error = std::move(keeper.on_error);
      ++notes->started;
      return std::make_unique<CountingKeeper>(notes);
    };
  }

  const std::string path_;
  std::shared_ptr<io::BufferProvider> buffers_;
  std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  std::shared_ptr<Tier> tier_;
  Result<void> first_try_;
};

// "ok", or the name of the error's code: what EXPECT_EQ shows well.
template <typename T>
std::string outcome(const Result<T>& result) {
  return result.ok() ? "ok" : std::string(error_code_name(result.error().code));
}

// Exactly the entry's bytes.
inline testing::AssertionResult is_data(const Result<std::string>& read, const EntryKey& key,
                                        uint32_t begin, uint32_t length) {
  if (!read.ok()) return testing::AssertionFailure() << read.error().to_string();
  if (*read == entry_data(key).substr(begin, length)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "wrong bytes";
}
inline testing::AssertionResult is_data(const Result<std::string>& read, const EntryKey& key) {
  return is_data(read, key, 0, key.length);
}

inline testing::AssertionResult is_not_found(const Result<std::string>& read) {
  if (outcome(read) == "not_found") return testing::AssertionSuccess();
  return testing::AssertionFailure() << outcome(read);
}

}  // namespace penstock::cache
