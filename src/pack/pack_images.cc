#include "pack/pack_images.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/thread_pool.h"
#include "loader/permutation.h"
#include "pack/shard_writer.h"
#include "pack/tar_writer.h"
#include "penstock/data.h"
#include "penstock/decode.h"
#include "store/object_address.h"

namespace penstock::pack {

namespace {

constexpr size_t kFailuresListed = 100;
constexpr uint64_t kAheadPerThread = 8;

// An image on its way, in the order of the shards.
struct Picture {
  std::vector<std::byte> bytes;
  std::string extension;
  std::string file;
  int32_t label = -1;
  bool resized = false;
  std::optional<Error> error;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Threads read, check and shrink; whoever writes takes them in order.
class Kitchen {
 public:
  Kitchen(data::Dataset& dataset, const PackOptions& options)
      : dataset_(dataset),
        options_(options),
        order_(options.seed, dataset.samples()),
        threads_(options.threads > 0 ? options.threads : static_cast<uint32_t>(available_cores())) {
    for (uint32_t i = 0; i < threads_; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Kitchen() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Picture take(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(number); });
    Picture picture = std::move(ready_.extract(number).mapped());
    ++taken_;
    changed_.notify_all();
    return picture;
  }

 private:
  void work() {
    set_thread_name("pack");
    decode::ImageDecoder decoder;
    while (true) {
      uint64_t number = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
          return stopping_ || next_ >= dataset_.samples() ||
                 next_ < taken_ + kAheadPerThread * threads_;
        });
        if (stopping_ || next_ >= dataset_.samples()) return;
        number = next_++;
      }
      Picture picture = cook(decoder, options_.shuffle ? order_(number) : number);
      const std::lock_guard lock(mutex_);
      ready_.emplace(number, std::move(picture));
      changed_.notify_all();
    }
  }

  Picture cook(decode::ImageDecoder& decoder, uint64_t sample) {
    Picture picture;
    const Result<void> done = read(decoder, sample, picture);
    if (!done.ok()) picture.error = done.error();
    return picture;
  }

  Result<void> read(decode::ImageDecoder& decoder, uint64_t sample, Picture& picture) {
    const data::SamplePlace place = PENSTOCK_TRY(dataset_.place(sample));
    const data::Shard& shard = dataset_.shards()[place.shard];
    const std::string path = place.index->path(place.sample, 0);
    picture.file = shard.name + "/" + path;
    picture.label = shard.label;
    picture.extension = place.index->fields()[place.members[0].field];
    picture.bytes.resize(place.members[0].size);
    uint64_t size = PENSTOCK_TRY(dataset_.read_loose(place, 0, picture.bytes));
    if (size > picture.bytes.size()) {
      picture.bytes.resize(size);
      size = PENSTOCK_TRY(dataset_.read_loose(place, 0, picture.bytes));
    }
    picture.bytes.resize(std::min<uint64_t>(size, picture.bytes.size()));
    return prepare(decoder, picture);
  }

  Result<void> prepare(decode::ImageDecoder& decoder, Picture& picture) {
    if (!options_.check && options_.max_side == 0) return {};
    decode::ImageInfo info = PENSTOCK_TRY(decode::ImageDecoder::info(picture.bytes));
    const bool shrink =
        options_.max_side > 0 && std::max(info.width, info.height) > options_.max_side;
    if (!shrink && !options_.check) return {};
    const std::vector<std::byte> pixels = PENSTOCK_TRY(decoder.decode_whole(picture.bytes, &info));
    if (!shrink) return {};
    picture.bytes = PENSTOCK_TRY(
        decode::encode_jpeg(pixels, info.width, info.height, options_.max_side, options_.quality));
    picture.extension = "jpg";
    picture.resized = true;
    return {};
  }

  data::Dataset& dataset_;
  const PackOptions& options_;
  const loader::Permutation order_;
  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Picture> ready_;
  uint64_t next_ = 0;
  uint64_t taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;  // Last: use the others.
};

Result<void> write_picture(ShardWriter& writer, const PackOptions& options, uint64_t number,
                           const Picture& picture) {
  const std::string key = fmt::format("{:09}", number);
  const std::string label = std::to_string(picture.label);
  std::string origin;
  if (options.names)
    origin = nlohmann::json{{"file", picture.file}}.dump(-1, ' ', false,
                                                         nlohmann::json::error_handler_t::replace);
  uint64_t bytes = tar_member_bytes(picture.bytes.size()) + tar_member_bytes(label.size());
  if (options.names) bytes += tar_member_bytes(origin.size());
  PENSTOCK_TRY(writer.begin_sample(bytes));
  PENSTOCK_TRY(writer.add(key + "." + picture.extension, picture.bytes));
  if (picture.label >= 0) PENSTOCK_TRY(writer.add(key + ".cls", bytes_of(label)));
  if (options.names) PENSTOCK_TRY(writer.add(key + ".json", bytes_of(origin)));
  return {};
}

Result<std::unique_ptr<store::ObjectStore>> open_target(const PackOptions& options) {
  if (!store::is_object_address(options.to)) {
    io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
    PENSTOCK_TRY(io::make_directories(fs, options.to));
  }
  auto store = PENSTOCK_TRY(store::open_store(options.to, {}));
  store::ListOptions list;
  list.prefix = options.prefix + "-";
  list.limit = 1;
  const store::ListPage there = PENSTOCK_TRY(store->list(std::move(list)));
  if (there.objects.empty()) return store;
  return make_error(ErrorCode::kExists,
                    fmt::format("{} has {} already: remove it, or choose another place or --prefix",
                                options.to, there.objects.front().key));
}

Result<void> write_classes(store::ObjectStore& store, const std::vector<std::string>& classes) {
  if (classes.empty()) return {};
  std::string text;
  for (const std::string& name : classes) text += name + "\n";
  PENSTOCK_TRY(store.put("classes.txt", bytes_of(text)));
  return {};
}

}  // namespace

Result<PackReport> pack_images(const PackOptions& options) {
  data::OpenOptions open;
  open.cancel = options.cancel;
  const auto dataset = PENSTOCK_TRY(data::Dataset::open({options.from}, open));
  for (const data::Shard& shard : dataset->shards()) {
    if (shard.loose) continue;
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} is no folder of images: it has shards already", options.from));
  }
  const auto store = PENSTOCK_TRY(open_target(options));
  PackReport report;
  report.classes = dataset->classes();
  report.totals.samples = dataset->samples();
  ShardWriter writer(*store, options.prefix, options.shard_bytes);
  Kitchen kitchen(*dataset, options);
  uint64_t kept = 0;
  for (uint64_t number = 0; number < dataset->samples(); ++number) {
    if (options.cancel.stop_requested())
      return make_error(ErrorCode::kCancelled, "stopped; shards that were finished are kept");
    const Picture picture = kitchen.take(number);
    ++report.totals.samples_done;
    if (picture.error) {
      ++report.failed;
      if (report.failures.size() < kFailuresListed)
        report.failures.push_back({picture.file, picture.error->to_string()});
      continue;
    }
    report.resized += picture.resized ? 1 : 0;
    PENSTOCK_TRY(write_picture(writer, options, kept++, picture));
    report.totals.bytes_out = writer.bytes();
    report.totals.shards = writer.shards();
    if (options.on_progress) options.on_progress(report.totals);
  }
  PENSTOCK_TRY(writer.finish());
  PENSTOCK_TRY(write_classes(*store, report.classes));
  PENSTOCK_TRY(store->flush());
  report.totals.bytes_out = writer.bytes();
  report.totals.shards = writer.shards();
  return report;
}

}  // namespace penstock::pack
