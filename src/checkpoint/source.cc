#include "checkpoint/source.h"

#include "checkpoint/names.h"

namespace penstock::checkpoint {

namespace {

class DirectoryFile final : public SourceFile {
 public:
  explicit DirectoryFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    return file_->read(offset, into);
  }

 private:
  const std::unique_ptr<io::File> file_;
};

class DirectorySource final : public Source {
 public:
  DirectorySource(io::FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  Result<std::string> read_text(const std::string& name, uint64_t limit_bytes) override {
    return io::read_file(fs_, join(path_, name), limit_bytes);
  }
  Result<uint64_t> size(const std::string& name) override {
    return PENSTOCK_TRY(fs_.stat(join(path_, name))).size;
  }
  Result<std::unique_ptr<SourceFile>> open(const std::string& name) override {
    std::unique_ptr<io::File> file = PENSTOCK_TRY(
        fs_.open(join(path_, name), {.mode = io::CacheMode::kDirect, .require_mode = false}));
    return std::unique_ptr<SourceFile>(std::make_unique<DirectoryFile>(std::move(file)));
  }
  const std::string& path() const override { return path_; }

 private:
  io::FileSystem& fs_;
  const std::string path_;
};

class StoreFile final : public SourceFile {
 public:
  StoreFile(std::shared_ptr<store::ObjectStore> store, store::ObjectInfo info)
      : store_(std::move(store)), info_(std::move(info)) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    store::GetOptions options;
    options.if_match = info_.etag;
    return PENSTOCK_TRY(store_->get(info_.key, offset, into, options)).bytes;
  }

 private:
  const std::shared_ptr<store::ObjectStore> store_;
  const store::ObjectInfo info_;
};

class StoreSource final : public Source {
 public:
  StoreSource(std::shared_ptr<store::ObjectStore> store, std::string folder)
      : store_(std::move(store)),
        folder_(std::move(folder)),
        path_(join(store_->description(), folder_)) {}

  Result<std::string> read_text(const std::string& name, uint64_t limit_bytes) override {
    const std::vector<std::byte> bytes =
        PENSTOCK_TRY(store::read_object(*store_, join(folder_, name), limit_bytes));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Result<uint64_t> size(const std::string& name) override {
    return PENSTOCK_TRY(store_->head(join(folder_, name))).size;
  }
  Result<std::unique_ptr<SourceFile>> open(const std::string& name) override {
    store::ObjectInfo info = PENSTOCK_TRY(store_->head(join(folder_, name)));
    return std::unique_ptr<SourceFile>(std::make_unique<StoreFile>(store_, std::move(info)));
  }
  const std::string& path() const override { return path_; }

 private:
  const std::shared_ptr<store::ObjectStore> store_;
  const std::string folder_;
  const std::string path_;
};

}  // namespace

std::unique_ptr<Source> directory_source(io::FileSystem& fs, std::string path) {
  return std::make_unique<DirectorySource>(fs, std::move(path));
}

std::unique_ptr<Source> store_source(std::shared_ptr<store::ObjectStore> store,
                                     std::string folder) {
  return std::make_unique<StoreSource>(std::move(store), std::move(folder));
}

}  // namespace penstock::checkpoint
