// The tests that every store passes. To run them over another one, instantiate the suite in a test
// of the same binary:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, StoreConformance, ::testing::Values(kind), store_kind_name);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/result_matchers.h"
#include "penstock/store.h"

namespace penstock::store {

// Where a store under test keeps its data.
class StoreBed {
 public:
  virtual ~StoreBed() = default;
  // The store, empty the first time; then one more over the same data.
  virtual std::unique_ptr<ObjectStore> open() = 0;
  // The same data from a folder on, in which there is something; null where stores have no such.
  virtual std::unique_ptr<ObjectStore> open_folder(const std::string&) { return nullptr; }
};

// What becomes of the time and the mode that a put is told to keep.
enum class Attributes {
  kNone,      // Nothing.
  kMetadata,  // They are beside the object.
  kOfFile,    // They are the file's own, so that every object has some.
};

// What is to be tested, and what it cannot do.
struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreBed>()> make;
  bool remote = false;           // A call may cost milliseconds: fewer of them.
  bool reopens = true;           // The data outlives the store.
  bool nests = true;             // "a" and "a/b" can both be objects.
  bool any_bytes = true;         // Keys need not be UTF-8.
  bool upload_if_absent = true;  // Upload::finish() keeps to if_absent.
  size_t part_bytes_max = 1024;  // Of a key between slashes.
  Attributes attributes = Attributes::kNone;
  bool pages_see_changes = true;  // Also those that the contract lets a listing miss.
};

inline std::string store_kind_name(const ::testing::TestParamInfo<StoreKind>& info) {
  return info.param.name;
}
inline void PrintTo(const StoreKind& kind, std::ostream* out) {
  *out << kind.name;
}

using Bytes = std::vector<std::byte>;

// Bytes that differ from those of another seed, also at every single place when both are small.
inline Bytes make_bytes(size_t size, uint64_t seed) {
  Bytes bytes(size);
  std::mt19937_64 random(seed);
  const auto shift = static_cast<uint8_t>(seed);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i < 64 ? shift + i * 7 : random() & 0xff);
  }
  return bytes;
}

// All of an object, by one get of more than it has.
inline Result<Bytes> get_all(ObjectStore& store, const std::string& key, GetOptions options = {}) {
  const ObjectInfo info = PENSTOCK_TRY(store.head(key));
  Bytes bytes(info.size + 10);
  const GetResult got = PENSTOCK_TRY(store.get(key, 0, bytes, std::move(options)));
  bytes.resize(got.bytes);
  return bytes;
}

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override { start_afresh(); }

  // An empty store in the place of the one before.
  void start_afresh() {
    store_.reset();
    bed_ = GetParam().make();
    store_ = bed_->open();
    ASSERT_NE(store_, nullptr);
  }

  // How often to do something: all of it, or the share that a remote store gets.
  static size_t times(size_t local, size_t remote) { return GetParam().remote ? remote : local; }

  void put(const std::string& key, const Bytes& bytes) {
    ASSERT_THAT(store_->put(key, bytes), IsOk()) << key;
  }
  void expect_object(const std::string& key, const Bytes& bytes) {
    const Result<Bytes> got = get_all(*store_, key);
    ASSERT_THAT(got, IsOk()) << key;
    EXPECT_TRUE(*got == bytes) << key << ": " << got->size() << " bytes";
  }
  void expect_absent(const std::string& key) {
    EXPECT_THAT(store_->head(key), FailsWith(ErrorCode::kNotFound)) << key;
    std::byte byte;
    EXPECT_THAT(store_->get(key, 0, {&byte, 1}), FailsWith(ErrorCode::kNotFound)) << key;
  }
  std::vector<std::string> all_keys(const std::string& prefix = "") {
    std::vector<std::string> keys;
    EXPECT_THAT(for_each_object(*store_, prefix,
                                [&](const ObjectInfo& info) {
                                  keys.push_back(info.key);
                                  return true;
                                }),
                IsOk());
    return keys;
  }

  // Keys with all the bytes that trouble somebody, as far as this store takes them.
  static std::vector<std::string> odd_keys();
  // Up to `count` different keys; no one in a folder named like another unless the store can.
  static std::vector<std::string> random_keys(std::mt19937_64& random, size_t count);

  std::unique_ptr<StoreBed> bed_;
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace penstock::store
