// A store that is far away, as S3 is, with an address of its own. For tests.
//
//   FarStore far("bucket");
//   far.put("a.tar", text);
//   Dataset::open({"far://bucket/*.tar"}, options);
//   far.fetched_bytes();
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/passing_store.h"

namespace penstock::data {

// Threads: as for a store; made and destroyed while nobody opens one. Outlives what was opened of it.
class FarStore {
 public:
  explicit FarStore(std::string name) : name_(std::move(name)) {
    store::add_store_scheme("far", open);
    const std::lock_guard lock(all().mutex);
    all().by_name[name_] = this;
  }
  ~FarStore() {
    const std::lock_guard lock(all().mutex);
    all().by_name.erase(name_);
  }

  void put(const std::string& key, std::string_view text) {
    ASSERT_TRUE(store_->put(key, std::as_bytes(std::span(text))).ok()) << key;
  }
  // That left the store, however often.
  uint64_t fetched_bytes() const {
    const std::lock_guard lock(mutex_);
    uint64_t bytes = 0;
    for (const Piece& piece : pieces_) bytes += piece.end - piece.begin;
    return bytes;
  }
  // Of those, that had left it before.
  uint64_t fetched_again_bytes() const {
    const std::lock_guard lock(mutex_);
    std::vector<Piece> sorted = pieces_;
    std::ranges::sort(sorted);
    uint64_t again = 0;
    Piece seen;
    for (const Piece& piece : sorted) {
      if (piece.key != seen.key) seen = {piece.key, 0, 0};
      again += std::min(piece.end, seen.end) - std::min(piece.begin, seen.end);
      seen.end = std::max(seen.end, piece.end);
    }
    return again;
  }

 private:
  struct Piece {
    std::string key;
    uint64_t begin = 0;
    uint64_t end = 0;
    auto operator<=>(const Piece&) const = default;
  };
  struct All {
    std::mutex mutex;
    std::map<std::string, FarStore*, std::less<>> by_name;
  };
  static All& all() {
    static All all;
    return all;
  }

  class View final : public store::PassingStore {
   public:
    explicit View(FarStore& far) : PassingStore(*far.store_), far_(far) {}
    store::Capabilities capabilities() const override { return {.shared = true}; }
    void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                   store::GetOptions options, store::Done<store::GetResult> done) override {
      PassingStore::async_get(
          key, offset, into, std::move(options),
          [&far = far_, key, offset, done = std::move(done)](Result<store::GetResult> got) {
            if (got.ok() && got->bytes > 0) far.note({key, offset, offset + got->bytes});
            done(std::move(got));
          });
    }

   private:
    FarStore& far_;
  };

  static Result<std::unique_ptr<store::ObjectStore>> open(std::string_view rest,
                                                          const store::StoreOptions&) {
    const std::lock_guard lock(all().mutex);
    const auto found = all().by_name.find(rest);
    if (found == all().by_name.end()) {
      return make_error(ErrorCode::kNotFound, "there is no far store " + std::string(rest));
    }
    return std::unique_ptr<store::ObjectStore>(std::make_unique<View>(*found->second));
  }
  void note(Piece piece) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;
  // Last: its threads, which note, end first.
  const std::unique_ptr<store::ObjectStore> store_ = store::make_memory_store();
};

}  // namespace penstock::data
