// Who changed what in a live volume behind the back of those who keep parts of it in memory: a mount,
// whose kernel holds names and attributes until it is told otherwise.
//
//   feed->add(listener);                  // the mount
//   ServedVolume(volume, feed)            // every change that is made through it is told
//
// Threads: all calls from any thread. Lifetime: remove() returns when no call of the listener is
// under way any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "penstock/meta.h"
#include "penstock/units.h"
#include "volume/uuid.h"

namespace penstock::volume {

struct Change {
  // A name that came, went, or leads to something else, in this directory, whose attributes and
  // listing are others too. 0: none.
  meta::Ino directory = 0;
  std::string name = {};
  // What got other attributes, or other content. 0: nothing.
  meta::Ino ino = 0;
  bool content = false;
};

class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  // After it happened, and before whoever asked for it is answered. No lock is held.
  virtual void changed(const VolumeUuid& volume, std::span<const Change> changes) = 0;
};

class ChangeFeed {
 public:
  void add(ChangeListener* listener);
  void remove(ChangeListener* listener);

  // A change is about to be made: what is read from now on may be old when it arrives.
  void expect();
  void tell(const VolumeUuid& volume, std::span<const Change> changes);
  // Whether one was, within the last `time`.
  bool changed_within(Nanoseconds time) const;

  // Names of files that are still being put. A kernel that learnt of one would keep the size that it
  // had then, also after the file got its real name: so it must not.
  void hide(const VolumeUuid& volume, meta::Ino directory, std::string_view name);
  void show(const VolumeUuid& volume, meta::Ino directory, std::string_view name);
  bool is_hidden(const VolumeUuid& volume, meta::Ino directory, std::string_view name) const;

 private:
  std::shared_mutex listeners_mutex_;  // Shared while they are called.
  std::vector<ChangeListener*> listeners_;
  std::atomic<int64_t> last_ns_ = INT64_MIN;  // Of the monotonic clock.

  std::atomic<uint64_t> hidden_count_ = 0;  // Mostly nothing is: then nobody waits for the lock.
  mutable std::mutex hidden_mutex_;
  std::set<std::tuple<VolumeUuid, meta::Ino, std::string>> hidden_;
};

}  // namespace penstock::volume
