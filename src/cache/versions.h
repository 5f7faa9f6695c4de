#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cache/entry.h"
#include "penstock/store.h"

namespace penstock::cache {

// One version of an object of the source, ready for looking things up.
struct Version {
  store::ObjectInfo info;
  ObjectVersion object;
  EntryId id;
};
using VersionRef = std::shared_ptr<const Version>;

// Which versions the objects of one source have, as far as is known without asking. Keeps the
// last 16,384 keys.
// Threads: all calls from any thread.
class Versions {
 public:
  // `identity` of the source. What it said is believed for `trust`.
  Versions(std::string identity, Nanoseconds trust);

  // The version that a get means; null when the source must be asked: nothing is known, it was known
  // too long ago, or another version than the one named was written since.
  VersionRef find(const std::string& key, const store::GetOptions& options);
  // The source said this just now.
  VersionRef learn(const store::ObjectInfo& info);
  // It was removed, or nobody knows what became of it: whoever names a version of it must ask.
  void doubt(const std::string& key);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    VersionRef version;  // Null: in doubt.
    Clock::time_point learned_at =
        Clock::time_point::min();  // min(): a caller said so, not the source.
    std::list<std::string>::iterator turn;
  };

  VersionRef make(const store::ObjectInfo& info) const;
  void keep(const std::string& key, VersionRef version, Clock::time_point learned_at);

  const std::string identity_;
  const Nanoseconds trust_;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> known_;
  std::list<std::string> turns_;  // Least recently used first.
};

}  // namespace penstock::cache
