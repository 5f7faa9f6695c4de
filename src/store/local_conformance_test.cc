// The stores that need no network, under the tests that all stores pass.
#include <stdlib.h>

#include <atomic>
#include <filesystem>

#include "io/memory_file_system.h"
#include "store/conformance.h"
#include "store/counting_store.h"
#include "store/faulty_store.h"

namespace penstock::store {

namespace {

using Open =
    std::function<Result<std::unique_ptr<ObjectStore>>(io::FileSystem&, const std::string&)>;

Result<std::unique_ptr<ObjectStore>> open_file(io::FileSystem& fs, const std::string& path) {
  return open_file_store(fs, path);
}
Result<std::unique_ptr<ObjectStore>> open_tree(io::FileSystem& fs, const std::string& path) {
  return open_tree_store(fs, path);
}
Result<std::unique_ptr<ObjectStore>> open_lazy_tree(io::FileSystem& fs, const std::string& path) {
  return open_tree_store(fs, path, {.sync_before_publish = false});
}

std::unique_ptr<ObjectStore> must(Result<std::unique_ptr<ObjectStore>> store) {
  EXPECT_THAT(store, IsOk());
  return store.ok() ? std::move(*store) : nullptr;
}

// A store that is all there is.
class OneStoreBed : public StoreBed {
 public:
  explicit OneStoreBed(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}
  std::unique_ptr<ObjectStore> open() override { return std::move(store_); }

 private:
  std::unique_ptr<ObjectStore> store_;
};

class MemoryDirectoryBed : public StoreBed {
 public:
  MemoryDirectoryBed(Open open, bool tree) : open_(std::move(open)), tree_(tree) {
    EXPECT_THAT(fs_.make_directory(path_), IsOk());
  }
  std::unique_ptr<ObjectStore> open() override { return must(open_(fs_, path_)); }
  std::unique_ptr<ObjectStore> open_folder(const std::string& folder) override {
    return tree_ ? must(open_(fs_, path_ + "/" + folder)) : nullptr;
  }

 private:
  // Of its own: all these file systems pass for the machine's.
  static std::string next_path() {
    static std::atomic<int> next{0};
    return "/store-" + std::to_string(next++);
  }

  const Open open_;
  const bool tree_;
  const std::string path_ = next_path();
  io::MemoryFileSystem fs_;
};

class LocalDirectoryBed : public StoreBed {
 public:
  LocalDirectoryBed(Open open, bool tree) : open_(std::move(open)), tree_(tree) {
    std::string name = std::filesystem::temp_directory_path() / "penstock-store-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~LocalDirectoryBed() override { std::filesystem::remove_all(path_); }
  std::unique_ptr<ObjectStore> open() override { return must(open_(local(), path_)); }
  std::unique_ptr<ObjectStore> open_folder(const std::string& folder) override {
    return tree_ ? must(open_(local(), path_ + "/" + folder)) : nullptr;
  }

 private:
  static io::FileSystem& local() {
    static const std::unique_ptr<io::LocalFileSystem> fs =
        std::move(*io::open_local_file_system({}));
    return *fs;
  }

  const Open open_;
  const bool tree_;
  std::string path_;
};

StoreKind wrapped(std::string name, std::function<std::unique_ptr<ObjectStore>()> make) {
  StoreKind kind;
  kind.name = std::move(name);
  kind.make = [make = std::move(make)] { return std::make_unique<OneStoreBed>(make()); };
  kind.reopens = false;
  return kind;
}

template <typename Bed>
StoreKind in_directory(std::string name, Open open, bool tree) {
  StoreKind kind;
  kind.remote = std::is_same_v<Bed, LocalDirectoryBed>;  // Syncs of a real disk take their time.
  kind.name = std::move(name);
  kind.make = [open = std::move(open), tree] { return std::make_unique<Bed>(open, tree); };
  kind.nests = !tree;
  if (tree) kind.part_bytes_max = 255;
  if (tree) kind.attributes = Attributes::kOfFile;
  kind.pages_see_changes = !tree;
  return kind;
}

std::unique_ptr<ObjectStore> make_slow_store() {
  FaultyStoreOptions options;
  options.delay_rate = 0.05;
  options.delay = std::chrono::microseconds(300);
  return std::make_unique<FaultyStore>(make_memory_store(), options);
}

std::vector<StoreKind> kinds() {
  return {
      wrapped("Memory", [] { return make_memory_store(); }),
      wrapped("Counting", [] { return std::make_unique<CountingStore>(make_memory_store()); }),
      wrapped("Delaying", make_slow_store),
      in_directory<MemoryDirectoryBed>("FileInMemory", open_file, false),
      in_directory<MemoryDirectoryBed>("TreeInMemory", open_tree, true),
      in_directory<LocalDirectoryBed>("FileOnDisk", open_file, false),
      in_directory<LocalDirectoryBed>("TreeOnDisk", open_tree, true),
      in_directory<LocalDirectoryBed>("LazyTreeOnDisk", open_lazy_tree, true),
  };
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Local, StoreConformance, ::testing::ValuesIn(kinds()), store_kind_name);

}  // namespace penstock::store
