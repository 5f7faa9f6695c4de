// Many small objects within bounded memory. PENSTOCK_SYNC_OBJECTS sets how many; the default keeps
// the test short.
#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>

#include "base/sanitized.h"
#include "store/call_queue.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

size_t objects_wanted() {
  const char* text = std::getenv("PENSTOCK_SYNC_OBJECTS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 100'000;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Objects that are made up when they are asked for: "folder-0000123/object-0000045".
class MadeUpStore : public store::ObjectStore {
 public:
  MadeUpStore(size_t folders, size_t in_each)
      : folders_(folders), in_each_(in_each), calls_("made-up", 4) {}

  void async_get(std::string key, uint64_t, std::span<std::byte> into, store::GetOptions,
                 store::Done<store::GetResult> done) override {
    calls_.start([key = std::move(key), into, done = std::move(done)] {
      std::fill(into.begin(), into.end(), std::byte{1});
      done(store::GetResult{into.size(), {key, 10, "etag", 1}});
    });
  }
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override {
    calls_.start(
        [this, options = std::move(options), done = std::move(done)] { done(list_page(options)); });
  }
  void async_put(std::string, std::span<const std::byte>, store::PutOptions,
                 store::Done<store::ObjectInfo> done) override {
    refuse<store::ObjectInfo>(std::move(done));
  }
  void async_head(std::string, store::CallOptions, store::Done<store::ObjectInfo> done) override {
    refuse<store::ObjectInfo>(std::move(done));
  }
  void async_remove(std::vector<std::string>, store::CallOptions,
                    store::Done<std::vector<store::RemoveFailure>> done) override {
    refuse<std::vector<store::RemoveFailure>>(std::move(done));
  }
  void async_copy(std::string, std::string, store::CallOptions,
                  store::Done<store::ObjectInfo> done) override {
    refuse<store::ObjectInfo>(std::move(done));
  }
  void async_flush(store::CallOptions, store::Done<void> done) override {
    calls_.start([done = std::move(done)] { done({}); });
  }
  Result<std::unique_ptr<store::Upload>> start_upload(std::string, store::PutOptions) override {
    return make_error(ErrorCode::kUnsupported, "made up");
  }
  store::Capabilities capabilities() const override { return {.writable = false}; }
  std::string description() const override { return "made-up"; }
  std::string identity() const override { return "made-up/"; }

 private:
  template <typename T>
  void refuse(store::Done<T> done) {
    calls_.start(
        [done = std::move(done)] { done(make_error(ErrorCode::kUnsupported, "made up")); });
  }

  // The number after which a listing goes on.
  static size_t next_number(std::string_view after, std::string_view before_number) {
    if (after.size() <= before_number.size()) return 0;
    size_t number = 0;
    std::from_chars(after.data() + before_number.size(), after.data() + after.size(), number);
    return number + 1;
  }

  store::ListPage list_page(const store::ListOptions& options) const {
    store::ListPage page;
    const bool at_top = options.prefix.empty();
    const std::string name = options.prefix + (at_top ? "folder-" : "object-");
    const size_t count = at_top ? folders_ : in_each_;
    size_t number = next_number(options.start_after, name);
    for (; number < count && page.objects.size() + page.folders.size() < options.limit; ++number) {
      const std::string key = fmt::format("{}{:07}", name, number);
      if (at_top) page.folders.push_back(key + "/");
      if (!at_top) page.objects.push_back({key, 10, "etag", 1});
      page.next = page.folders.empty() ? page.objects.back().key : page.folders.back();
    }
    if (number == count) page.next.reset();
    return page;
  }

  const size_t folders_;
  const size_t in_each_;
  store::CallQueue calls_;
};

// Takes all and keeps nothing.
class ForgetfulStore : public MadeUpStore {
 public:
  ForgetfulStore() : MadeUpStore(0, 0), calls_("forgetful", 4) {}
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions,
                 store::Done<store::ObjectInfo> done) override {
    calls_.start([key = std::move(key), size = bytes.size(), done = std::move(done)] {
      done(store::ObjectInfo{key, size, "etag", 1});
    });
  }
  std::string identity() const override { return "forgetful/"; }

 private:
  store::CallQueue calls_;
};

void copy_many(size_t folders, size_t in_each) {
  const auto from = store_place(std::make_unique<MadeUpStore>(folders, in_each));
  const auto to = store_place(std::make_unique<ForgetfulStore>());
  ::malloc_trim(0);
  const size_t before = resident_bytes();
  size_t most = before;
  Options options = small_options();
  options.on_progress = [&](const Progress&) { most = std::max(most, resident_bytes()); };
  const Report report = run_ok(*from, *to, options);
  EXPECT_EQ(report.totals.copied, folders * in_each);
  EXPECT_EQ(report.totals.listed, folders * in_each);
  if (!kSanitized) {
    EXPECT_LT(most - before, 200 * kMiB);
  }
  fmt::print("{} objects in {} folders: grew by {} in {}\n", folders * in_each, folders,
             format_size(most - before), format_duration(report.time));
}

TEST(Scale, ManyObjectsInOneFolder) {
  copy_many(1, objects_wanted());
}

TEST(Scale, ManyFoldersOfOneObject) {
  copy_many(objects_wanted(), 1);
}

TEST(Scale, ManyFoldersOfManyObjects) {
  copy_many(100, objects_wanted() / 100);
}

}  // namespace

}  // namespace penstock::sync
