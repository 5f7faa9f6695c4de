#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "penstock/store.h"
#include "sync/compare.h"

namespace penstock::sync {

// One object (or link) on its way.
struct CopyItem {
  enum class Step : uint8_t {
    kAskKeptTime,  // Finds out whether it differs by the time that was recorded,
    kReadBytes,    // or by its bytes.
    kCopy,
  };
  Step step = Step::kCopy;
  std::string key;                        // In the source,
  std::string to;                         // and in the target.
  std::string_view why;                   // It is copied.
  Side source;                            // As last seen.
  std::optional<uint32_t> mode;           // Of a file of a tree.
  std::optional<Side> there;              // What the target has and is compared with,
  std::optional<uint32_t> mode_there;     // when it is a file.
  std::optional<store::ObjectInfo> info;  // From a head of the source; large objects need it.
  std::optional<std::string> leads_to;    // It is a link.
  bool is_new = false;                    // The target has nothing of that name.
  bool announced = false;
  uint32_t attempts = 0;
};

// What is waiting to be copied. An item is open, and holds a slot, from pop() on; both are given back
// apart from each other, by close_item() and release_slot(). There are `jobs` slots.
// Threads: all calls from any thread, but pop() and take_slot() only from one.
// On `stop` nothing more comes out.
class CopyQueue {
 public:
  CopyQueue(size_t capacity, size_t jobs, std::stop_token stop);

  // Waits for room. False on stop.
  bool push(CopyItem item);
  // For an open item that goes on later, before all others. Never waits.
  void push_again(CopyItem item);
  // Waits for an item and a slot for it. Nothing when it was closed and all items are too.
  std::optional<CopyItem> pop();
  // One more slot, for a part of an item. False on stop.
  bool take_slot();
  void release_slot();
  void close_item();
  // No push() after this.
  void close();

 private:
  const size_t capacity_;
  const size_t jobs_;
  const std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any room_;  // For push(),
  std::condition_variable_any work_;  // for pop() and take_slot().
  std::deque<CopyItem> items_;
  std::deque<CopyItem> again_;
  size_t slots_taken_ = 0;
  size_t open_ = 0;
  bool closed_ = false;
};

}  // namespace penstock::sync
