#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "cache/open_entries.h"
#include "cache/tier_shared.h"

namespace penstock::cache {

class TierReads;

using ReadDone = std::function<void(Result<TierBytes>)>;

// One read under way. Whoever carries it on has the only pointer to it: the caller, a worker, an
// engine thread, the list of those who wait for an entry to be opened.
struct TierRead final : UnderWay::Item {
  // What only reads need that do not find their entry open.
  struct Opening {
    EntryKey key;
    EntryName name;
    std::shared_ptr<Drive> drive;
    bool leads = false;  // Others may wait for it, and hear when it ends.
    io::Buffer header;
    std::atomic<int> parts_left =
        2;  // The header, its own or that of whom it follows, and the data.
    Result<size_t> header_read = size_t{0};  // Of who leads.
    Result<size_t> data_read = size_t{0};
    std::optional<Error> no_header;  // Whom it followed could not open it.
    std::optional<Error> not_asked;  // For the data: why.
  };

  std::function<void()> give_up() override;
  bool only_opens() const { return length == 0; }
  uint32_t first_block() const { return begin / kBlockBytes; }
  uint32_t block_bytes() const {
    return (begin + length + kBlockBytes - 1) / kBlockBytes * kBlockBytes -
           first_block() * kBlockBytes;
  }

  TierReads* reads = nullptr;
  ReadDone done;
  uint32_t begin = 0;
  uint32_t length = 0;
  std::chrono::steady_clock::time_point start;
  OpenEntryRef entry;
  io::Buffer buffer;
  std::unique_ptr<Opening> opening;
};

// The reads of a tier.
//
// An open entry is read by the calling thread's submission and the engine's completion alone. One
// that is not open goes to a worker, which opens it and submits header and data together; the header's
// completion checks it and puts the entry into the table. Others that come meanwhile ask for their data
// as soon as the file is open: it is checked when the header is there too.
class TierReads {
 public:
  explicit TierReads(TierShared& shared) : shared_(shared) {}

  void read(const EntryKey& key, const EntryId& version, uint32_t begin, uint32_t length,
            ReadDone done);
  void open_ahead(const EntryKey& key, const EntryId& version);

 private:
  using Outcome = Result<TierBytes>;

  std::unique_ptr<TierRead> make_read(uint32_t begin, uint32_t length, ReadDone done);
  Result<void> prepare_opening(TierRead& read, const EntryKey& key, const EntryId& version);

  // The data of an open entry.
  void read_data(TierRead* read);
  Result<void> take_data_buffer(TierRead& read, const EntryKey& key);
  io::IoRequest data_request(TierRead* read, io::IoDone done);
  void data_done(TierRead* read, const Result<size_t>& bytes);

  // Opening.
  void begin_opening(TierRead* read);
  void skip(TierRead* read);
  void open_file(TierRead* read);
  void submit_both(TierRead* read);
  void follow(TierRead* read);
  void header_done(TierRead* read);
  void header_failed(TierRead* read);
  void entry_opened(TierRead* read, BlockSums sums);
  void part_done(TierRead* read);
  void both_done(TierRead* read);
  void open_failed(TierRead* read, const Error& error);

  // What can be wrong.
  void cut_short(TierRead* read);
  void damaged(TierRead* read);
  void failed(TierRead* read, const Error& error);

  // Answers, unless the watchdog has, and ends the read.
  void finish(TierRead* read, Outcome outcome);
  void retire(TierRead* read);

  TierShared& shared_;
};

}  // namespace penstock::cache
