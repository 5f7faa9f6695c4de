#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "data/source.h"
#include "penstock/units.h"

namespace penstock::data {

// Reads a shard forwards, in pieces as small as its caller likes. Where those are close together the
// shard is read in windows that grow to 2 MiB, with some ahead when it is remote; what lies between
// pieces that are far apart is not read.
// Threads: one at a time.
class WindowReader {
 public:
  static constexpr size_t kWindowBytesMax = 2 * kMiB;

  // `progress`, when given, is added to as the reader gets on: the shard's size in all, once
  // finish() was called. `file` outlives it.
  WindowReader(ShardFile& file, std::stop_token cancel, std::atomic<uint64_t>* progress = nullptr);
  ~WindowReader();

  uint64_t size() const { return file_.size(); }
  const std::string& name() const { return file_.name(); }
  // Valid until the next call. Requires that the range is in the shard, ends not before the one
  // asked for last began, and is at most kWindowBytesMax.
  Result<std::span<const std::byte>> at(uint64_t offset, size_t length);
  void finish() { tell(size()); }

 private:
  struct Ahead;

  uint64_t window_end() const { return window_at_ + window_.size(); }
  Result<void> fill(uint64_t offset, size_t length);
  Result<void> append(uint64_t from, size_t wanted);
  Result<bool> append_ahead(uint64_t from);
  void read_ahead();
  void drop_ahead();
  void tell(uint64_t offset);

  ShardFile& file_;
  const std::stop_token cancel_;
  std::atomic<uint64_t>* const progress_;
  uint64_t told_ = 0;
  uint64_t window_at_ = 0;
  std::vector<std::byte> window_;
  size_t step_;
  std::deque<std::shared_ptr<Ahead>> ahead_;
};

}  // namespace penstock::data
