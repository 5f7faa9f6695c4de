#include "store/temporary_file.h"

#include <algorithm>
#include <vector>

#include "store/blocking_store.h"

namespace penstock::store {

namespace {

constexpr size_t kStepBytes = 4 * kMiB;  // Between two looks at deadline and cancellation.

class FileUpload final : public Upload {
 public:
  using Publish = std::function<Result<ObjectInfo>(TemporaryFile&, const PutOptions&)>;

  FileUpload(std::unique_ptr<TemporaryFile> file, PutOptions options, Publish publish)
      : file_(std::move(file)), options_(std::move(options)), publish_(std::move(publish)) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    if (file_ == nullptr) return over();
    Result<void> written = file_->write(bytes, options_);
    if (!written.ok()) abort();
    return written;
  }
  Result<ObjectInfo> finish() override {
    if (file_ == nullptr) return over();
    const std::unique_ptr<TemporaryFile> file = std::move(file_);
    PENSTOCK_TRY(check_call(options_));
    return publish_(*file, options_);
  }
  void abort() override { file_.reset(); }

 private:
  static Error over() { return make_error(ErrorCode::kClosed, "the upload is over"); }

  std::unique_ptr<TemporaryFile> file_;
  const PutOptions options_;
  const Publish publish_;
};

}  // namespace

Result<std::unique_ptr<TemporaryFile>> TemporaryFile::create(io::FileSystem& fs, std::string path,
                                                             bool follow_links) {
  std::unique_ptr<io::File> file = PENSTOCK_TRY(fs.open(path, {.access = io::Access::kWrite,
                                                               .create = io::Create::kMustNotExist,
                                                               .follow_links = follow_links}));
  return std::unique_ptr<TemporaryFile>(new TemporaryFile(fs, std::move(path), std::move(file)));
}

TemporaryFile::~TemporaryFile() {
  if (!moved_) (void)fs_.remove(path_);  // Nothing reads it: a failure costs only the space.
}

Result<void> TemporaryFile::write(std::span<const std::byte> bytes, const CallOptions& options) {
  while (!bytes.empty()) {
    const std::span step = bytes.first(std::min(bytes.size(), kStepBytes));
    PENSTOCK_TRY(check_call(options));
    PENSTOCK_TRY(file_->write(size_, step));
    size_ += step.size();
    bytes = bytes.subspan(step.size());
  }
  return {};
}

Result<void> TemporaryFile::copy(io::File& from, uint64_t size, const CallOptions& options) {
  std::vector<std::byte> buffer(std::min<uint64_t>(size, kStepBytes));
  for (uint64_t done = 0; done < size; done += buffer.size()) {
    buffer.resize(std::min<uint64_t>(size - done, kStepBytes));
    const size_t read = PENSTOCK_TRY(from.read(done, buffer));
    if (read != buffer.size()) {
      return make_error(ErrorCode::kChanged, "the file became shorter while it was copied", true);
    }
    PENSTOCK_TRY(write(buffer, options));
  }
  return {};
}

Result<void> TemporaryFile::move_to(const std::string& path, io::RenameMode mode) {
  PENSTOCK_TRY(fs_.rename(path_, path, mode));
  moved_ = true;
  return {};
}

std::unique_ptr<Upload> make_file_upload(std::unique_ptr<TemporaryFile> file, PutOptions options,
                                         FileUpload::Publish publish) {
  return std::make_unique<FileUpload>(std::move(file), std::move(options), std::move(publish));
}

Result<size_t> read_in_steps(io::File& file, uint64_t size, uint64_t offset,
                             std::span<std::byte> into, const CallOptions& options) {
  if (offset >= size) return size_t{0};
  into = into.first(std::min<uint64_t>(into.size(), size - offset));
  size_t done = 0;
  while (done < into.size()) {
    PENSTOCK_TRY(check_call(options));
    const size_t step = std::min(into.size() - done, kStepBytes);
    const size_t read = PENSTOCK_TRY(file.read(offset + done, into.subspan(done, step)));
    done += read;
    if (read < step) break;
  }
  return done;
}

}  // namespace penstock::store
