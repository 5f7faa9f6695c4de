// For tests: a file that behaves as another, but for what a derived one does differently.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "penstock/io.h"

namespace penstock::io {

// Passes every call on to a file.
class PassingFile : public File {
 public:
  explicit PassingFile(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}

  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    return inner_->read(offset, into);
  }
  Result<void> write(uint64_t offset, std::span<const std::byte> from) override {
    return inner_->write(offset, from);
  }
  using File::submit;
  void submit(std::span<IoRequest> requests) override { inner_->submit(requests); }
  Result<void> sync() override { return inner_->sync(); }
  Result<void> data_sync() override { return inner_->data_sync(); }
  Result<void> allocate(uint64_t offset, uint64_t length) override {
    return inner_->allocate(offset, length);
  }
  Result<void> truncate(uint64_t size) override { return inner_->truncate(size); }
  Result<void> advise(Advice advice, uint64_t offset, uint64_t length) override {
    return inner_->advise(advice, offset, length);
  }
  Result<void> set_attributes(std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns) override {
    return inner_->set_attributes(mode, mtime_ns);
  }
  Result<FileInfo> stat() override { return inner_->stat(); }
  CacheMode mode() const override { return inner_->mode(); }
  Alignment alignment() const override { return inner_->alignment(); }
  Result<void> close() override { return inner_->close(); }

 private:
  std::unique_ptr<File> inner_;
};

}  // namespace penstock::io
