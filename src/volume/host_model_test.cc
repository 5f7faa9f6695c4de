// Random operations on a volume and on a map of strings: what can be read is the same, wherever the
// bytes lie at the time, and after every death of the owner.
#include <map>

#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;

constexpr uint64_t kFileBytes = 400'000;

class Model {
 public:
  explicit Model(uint64_t seed)
      : random_(seed), host_(new_host(*fs_)), volume_(*host_->open("v")) {}

  void step() {
    switch (below(17)) {
      case 0:
      case 1:
        return create();
      case 2:
        return remove();
      case 3:
        return rename();
      case 4:
        return truncate();
      case 5:
        return punch();
      case 6:
        return copy();
      case 7:
        return drain();
      case 8:
        return collect();
      case 9:
        return commit();
      case 10:
        return die();
      case 11:
        return scribble();
      default:
        return write();
    }
  }

  void expect_same() {
    const auto entries = volume_->names().list(meta::kRoot, 0, 100);
    ASSERT_THAT(entries, IsOk());
    EXPECT_EQ(entries->size(), files_.size());
    for (const auto& [name, bytes] : files_) {
      ASSERT_TRUE(same_bytes(content_of(*volume_, name), bytes)) << name;
    }
    const auto findings = host_->database().check();
    ASSERT_THAT(findings, IsOk());
    EXPECT_THAT(*findings, ::testing::IsEmpty());
  }

  void expect_nothing_wrong() {
    const auto report = host_->fsck({});
    ASSERT_THAT(report, IsOk());
    for (const Finding& finding : report->findings) ADD_FAILURE() << finding.path << finding.what;
  }

  int merged() const { return merged_; }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  std::string any_name() { return std::string(1, static_cast<char>('a' + below(6))); }

  std::map<std::string, Bytes>::iterator any_file() {
    if (files_.empty()) return files_.end();
    return std::next(files_.begin(), static_cast<ptrdiff_t>(below(files_.size())));
  }
  meta::Ino ino_of(const std::string& name) {
    return volume_->names().lookup(meta::kRoot, name)->ino;
  }

  void create() {
    const std::string name = any_name();
    const auto made = volume_->create(meta::kRoot, name, {.mode = S_IFREG | 0644});
    EXPECT_EQ(made.ok(), !files_.contains(name));
    files_.try_emplace(name);
  }
  void remove() {
    const auto file = any_file();
    if (file == files_.end()) return;
    const meta::Ino ino = ino_of(file->first);
    ASSERT_THAT(volume_->hold(ino), IsOk());
    ASSERT_THAT(volume_->unlink(meta::kRoot, file->first), IsOk());
    if (below(2) == 0) volume_->let_go(ino);
    files_.erase(file);
  }
  void rename() {
    const auto file = any_file();
    const std::string name = any_name();
    if (file == files_.end() || file->first == name) return;
    ASSERT_THAT(
        volume_->rename(meta::kRoot, file->first, meta::kRoot, name, meta::Rename::kReplace),
        IsOk());
    files_[name] = std::move(file->second);
    files_.erase(file);
  }
  void write() {
    const auto file = any_file();
    if (file == files_.end()) return;
    const uint64_t offset = below(4) == 0 ? file->second.size() : below(kFileBytes);
    const Bytes bytes = random_bytes(1 + below(below(3) == 0 ? 60'000 : 5'000), random_());
    const Result<void> written = volume_->write(ino_of(file->first), offset, bytes);
    if (!written.ok()) {  // The journal is full.
      ASSERT_THAT(written, FailsWith(ErrorCode::kTimeout));
      return drain();
    }
    if (file->second.size() < offset + bytes.size()) file->second.resize(offset + bytes.size());
    std::ranges::copy(bytes, file->second.begin() + static_cast<ptrdiff_t>(offset));
  }
  // Many small pieces side by side: they are merged when they are moved.
  void scribble() {
    const auto file = any_file();
    if (file == files_.end()) return;
    uint64_t offset = below(kFileBytes);
    const meta::Ino ino = ino_of(file->first);
    for (uint64_t left = 16 + below(40); left > 0; --left) {
      const Bytes bytes = random_bytes(1 + below(700), random_());
      if (!volume_->write(ino, offset, bytes).ok()) return drain();
      if (file->second.size() < offset + bytes.size()) file->second.resize(offset + bytes.size());
      std::ranges::copy(bytes, file->second.begin() + static_cast<ptrdiff_t>(offset));
      offset += bytes.size();
    }
    if (below(2) == 0) return;
    const size_t pieces = volume_->names().extents(ino, 0, 2 * kFileBytes)->size();
    drain();
    if (volume_->names().extents(ino, 0, 2 * kFileBytes)->size() < pieces) ++merged_;
  }
  void truncate() {
    const auto file = any_file();
    if (file == files_.end()) return;
    const uint64_t size = below(kFileBytes);
    ASSERT_THAT(volume_->change(ino_of(file->first), {.size = size}), IsOk());
    file->second.resize(size);
  }
  void punch() {
    const auto file = any_file();
    if (file == files_.end()) return;
    const uint64_t offset = below(kFileBytes);
    const uint64_t length = 1 + below(100'000);
    ASSERT_THAT(volume_->punch(ino_of(file->first), offset, length, below(2) == 0), IsOk());
    const uint64_t size = file->second.size();
    if (offset >= size) return;
    std::fill_n(file->second.begin() + static_cast<ptrdiff_t>(offset),
                std::min(length, size - offset), std::byte{0});
  }
  void copy() {
    const auto from = any_file();
    const auto to = any_file();
    if (from == files_.end() || from == to) return;
    const uint64_t offset = below(from->second.size() + 1);
    const uint64_t length = std::min<uint64_t>(below(100'000), from->second.size() - offset);
    const uint64_t there = below(kFileBytes);
    ASSERT_THAT(volume_->copy_range(ino_of(from->first), offset, ino_of(to->first), there, length),
                IsOk());
    if (length == 0) return;
    if (to->second.size() < there + length) to->second.resize(there + length);
    std::copy_n(from->second.begin() + static_cast<ptrdiff_t>(offset), length,
                to->second.begin() + static_cast<ptrdiff_t>(there));
  }
  void drain() { ASSERT_THAT(host_->drain(kNoDeadline), IsOk()); }
  void collect() { ASSERT_THAT(host_->gc({}), IsOk()); }
  void commit() { ASSERT_THAT(host_->commit(), IsOk()); }
  // The owner is killed, and another one takes over what it left.
  void die() {
    std::unique_ptr<MemoryFileSystem> left = fs_->clone();
    volume_.reset();
    host_.reset();
    fs_ = std::move(left);
    host_ = same_host(*fs_);
    volume_ = *host_->open("v");
  }

  std::mt19937_64 random_;
  std::unique_ptr<MemoryFileSystem> fs_ = std::make_unique<MemoryFileSystem>();
  std::shared_ptr<Host> host_;
  std::shared_ptr<Volume> volume_;
  std::map<std::string, Bytes> files_;
  int merged_ = 0;
};

class HostModel : public ::testing::TestWithParam<uint64_t> {};

TEST_P(HostModel, ReadsWhatWasWritten) {
  Model model(GetParam());
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    model.step();
    if (i % 10 == 9) model.expect_same();
  }
  model.expect_nothing_wrong();
  EXPECT_GT(model.merged(), 0) << "no small pieces were merged: less was tested than should be";
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostModel, ::testing::Range(uint64_t{1}, uint64_t{9}));

}  // namespace
}  // namespace penstock::volume
