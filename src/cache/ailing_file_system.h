// A file system on a drive that falls ill when it is told to, and recovers when it is told to: its
// calls fail, or hang until then, as those of a dying drive or a lost network mount do. For tests.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/io.h"

namespace penstock::cache {

// What is wrong, and who waits for it to pass.
// Threads: all calls from any thread.
class Ailment {
 public:
  enum What : unsigned { kNothing = 0, kReads = 1, kWrites = 2, kOpens = 4, kNames = 8, kAll = 15 };

  void hang(unsigned what) { begin(what, 0); }
  void fail(unsigned what, int os_errno) { begin(what, os_errno); }
  void recover() {
    std::vector<std::function<void()>> held;
    {
      std::lock_guard lock(mutex_);
      what_ = kNothing;
      held.swap(held_);
    }
    changed_.notify_all();
    for (const auto& submit : held) submit();
  }

  // The answer of a call that is of the kind `what`. Waits while those hang.
  Result<void> pass(What what) {
    std::unique_lock lock(mutex_);
    ++hanging_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return (what_ & what) == 0 || os_errno_ != 0; });
    --hanging_;
    if ((what_ & what) == 0) return {};
    return errno_error(os_errno_, "an ailing drive");
  }

  // Calls `submit` now, or once those that hang are released.
  void pass_later(What what, std::function<void()> submit) {
    {
      std::lock_guard lock(mutex_);
      if ((what_ & what) != 0 && os_errno_ == 0) {
        held_.push_back(std::move(submit));
        changed_.notify_all();
        return;
      }
    }
    submit();
  }

  // Waits until so many calls and requests hang.
  void wait_until_hanging(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return hanging_ + held_.size() >= count; });
  }

 private:
  void begin(unsigned what, int os_errno) {
    std::lock_guard lock(mutex_);
    what_ = what;
    os_errno_ = os_errno;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned what_ = kNothing;
  int os_errno_ = 0;  // 0: they hang.
  size_t hanging_ = 0;
  std::vector<std::function<void()>> held_;
};

class AilingFile final : public io::File {
 public:
  AilingFile(Ailment& ailment, std::unique_ptr<io::File> inner)
      : ailment_(ailment), inner_(std::move(inner)) {}

  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kReads));
    return inner_->read(offset, into);
  }
  Result<void> write(uint64_t offset, std::span<const std::byte> from) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kWrites));
    return inner_->write(offset, from);
  }
  using io::File::submit;
  void submit(std::span<io::IoRequest> requests) override {
    for (io::IoRequest& request : requests) {
      auto held = std::make_shared<io::IoRequest>(std::move(request));
      const Ailment::What what =
          held->kind == io::IoRequest::Kind::kRead ? Ailment::kReads : Ailment::kWrites;
      ailment_.pass_later(what, [this, what, held] { submit_now(what, *held); });
    }
  }
  Result<void> sync() override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kWrites));
    return inner_->sync();
  }
  Result<void> data_sync() override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kWrites));
    return inner_->data_sync();
  }
  Result<void> allocate(uint64_t offset, uint64_t length) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kWrites));
    return inner_->allocate(offset, length);
  }
  Result<void> truncate(uint64_t size) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kWrites));
    return inner_->truncate(size);
  }
  Result<void> advise(io::Advice advice, uint64_t offset, uint64_t length) override {
    return inner_->advise(advice, offset, length);
  }
  Result<void> set_attributes(std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns) override {
    return inner_->set_attributes(mode, mtime_ns);
  }
  Result<io::FileInfo> stat() override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_->stat();
  }
  io::CacheMode mode() const override { return inner_->mode(); }
  io::Alignment alignment() const override { return inner_->alignment(); }
  Result<void> close() override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_->close();
  }

 private:
  // What fails is carried out all the same: the answer must come from an engine's thread.
  void submit_now(Ailment::What what, io::IoRequest& request) {
    Result<void> passed = ailment_.pass(what);
    if (!passed.ok()) {
      request.done = [error = passed.error(), done = std::move(request.done)](Result<size_t>) {
        done(error);
      };
    }
    inner_->submit(std::move(request));
  }

  Ailment& ailment_;
  const std::unique_ptr<io::File> inner_;
};

// `inner` outlives it.
class AilingFileSystem final : public io::FileSystem {
 public:
  explicit AilingFileSystem(io::FileSystem& inner) : inner_(inner) {}
  Ailment& ailment() { return ailment_; }

  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kOpens));
    auto file = PENSTOCK_TRY(inner_.open(path, options));
    return std::unique_ptr<io::File>(std::make_unique<AilingFile>(ailment_, std::move(file)));
  }
  Result<io::FileInfo> stat(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.stat(path);
  }
  Result<io::FileInfo> stat_link(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.stat_link(path);
  }
  Result<void> make_symlink(const std::string& target, const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.make_symlink(target, path);
  }
  Result<void> make_link(const std::string& file, const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.make_link(file, path);
  }
  Result<void> rename(const std::string& from, const std::string& to,
                      io::RenameMode mode) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.rename(from, to, mode);
  }
  Result<void> remove(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.remove(path);
  }
  Result<void> remove_directory(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.remove_directory(path);
  }
  Result<void> make_directory(const std::string& path, mode_t permissions) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.make_directory(path, permissions);
  }
  Result<void> list(const std::string& path,
                    const std::function<bool(const io::DirectoryEntry&)>& visit) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.list(path, visit);
  }
  Result<void> sync_directory(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.sync_directory(path);
  }
  Result<void> sync_file_system(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.sync_file_system(path);
  }
  Result<io::SpaceInfo> space(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.space(path);
  }
  Result<std::unique_ptr<io::FileLock>> try_lock(const std::string& path) override {
    PENSTOCK_TRY(ailment_.pass(Ailment::kNames));
    return inner_.try_lock(path);
  }
  std::string boot_id() override { return inner_.boot_id(); }
  std::string description() const override { return "ailing " + inner_.description(); }

 private:
  io::FileSystem& inner_;
  Ailment ailment_;
};

}  // namespace penstock::cache
