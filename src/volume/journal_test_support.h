// Journals for the tests of this layer, and a list of what they ought to hold.
#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/result_matchers.h"
#include "io/memory_file_system.h"
#include "volume/journal.h"
#include "volume/journal_format.h"

namespace penstock::volume {

using Bytes = std::vector<std::byte>;

inline const std::string kJournalPath = "/var/volume/journal";

inline JournalOptions small_options() {
  JournalOptions options;
  for (size_t i = 0; i < options.volume.size(); ++i) options.volume[i] = static_cast<std::byte>(i);
  options.segment_bytes = 64 * kKiB;
  options.limit_bytes = 16 * options.segment_bytes;
  options.spare_bytes = 2 * options.segment_bytes;
  return options;
}

// Both faster than what the standard library does without optimisation.
inline Bytes random_bytes(size_t size, uint64_t seed) {
  Bytes bytes(size);
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (size_t at = 0; at < size; at += sizeof(state)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(bytes.data() + at, &state, std::min(sizeof(state), size - at));
  }
  return bytes;
}
inline bool same_bytes(const Bytes& one, const Bytes& two) {
  return one.size() == two.size() &&
         (one.empty() || std::memcmp(one.data(), two.data(), one.size()) == 0);
}

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

struct Entry {
  Bytes record;
  Bytes content;
  bool operator==(const Entry& other) const {
    return same_bytes(record, other.record) && same_bytes(content, other.content);
  }
};

// Printed instead of the bytes.
inline void PrintTo(const Entry& entry, std::ostream* out) {
  *out << entry.record.size() << " + " << entry.content.size() << " bytes";
}

struct Visited {
  JournalPlace place;
  Entry entry;
};

inline Result<std::vector<Visited>> replay_all(Journal& journal, uint64_t committed = 0) {
  std::vector<Visited> visited;
  PENSTOCK_TRY(journal.replay(
      committed,
      [&](const JournalPlace& place, std::span<const std::byte> record,
          std::span<const std::byte> content) -> Result<void> {
        visited.push_back(
            {place, {{record.begin(), record.end()}, {content.begin(), content.end()}}});
        return {};
      }));
  return visited;
}

inline std::unique_ptr<Journal> open_journal(io::FileSystem& fs,
                                             const JournalOptions& options = small_options()) {
  auto journal = Journal::open(fs, kJournalPath, options);
  EXPECT_THAT(journal, IsOk());
  return journal.ok() ? std::move(*journal) : nullptr;
}

// Opened and replayed; what was in it is not looked at.
inline std::unique_ptr<Journal> ready_journal(io::FileSystem& fs,
                                              const JournalOptions& options = small_options(),
                                              uint64_t committed = 0) {
  auto journal = open_journal(fs, options);
  if (journal == nullptr) return nullptr;
  EXPECT_THAT(replay_all(*journal, committed), IsOk());
  return journal;
}

inline Result<JournalPlace> append(Journal& journal, const Entry& entry) {
  return journal.append(entry.record, entry.content);
}

inline std::vector<std::string> names_in(io::FileSystem& fs,
                                         const std::string& path = kJournalPath) {
  std::vector<std::string> names;
  EXPECT_THAT(fs.list(path,
                      [&](const io::DirectoryEntry& entry) {
                        names.push_back(entry.name);
                        return true;
                      }),
              IsOk());
  std::ranges::sort(names);
  return names;
}

inline size_t count_named(io::FileSystem& fs, std::string_view prefix) {
  return static_cast<size_t>(std::ranges::count_if(
      names_in(fs), [&](const std::string& name) { return name.starts_with(prefix); }));
}

// What was appended, synced and committed, whatever became of the journal; and whether a journal
// that is opened holds what it must.
class Ledger {
 public:
  // The next record, different each time.
  Entry next_entry() {
    ++made_;
    return {random_bytes(made_ * 37 % 300, made_), random_bytes(made_ * 7919 % 24'000, made_ + 7)};
  }

  // After kIo the record may be there or not.
  Result<JournalPlace> append(Journal& journal, Entry entry) {
    const Result<JournalPlace> place = volume::append(journal, entry);
    entries_.resize(appended_);
    if (place.ok() || place.error().code == ErrorCode::kIo) entries_.push_back(std::move(entry));
    if (!place.ok()) return place;
    EXPECT_EQ(place->sequence, ++appended_);
    return place;
  }
  Result<void> sync(Journal& journal) {
    const uint64_t covered = appended_;
    PENSTOCK_TRY(journal.sync());
    synced_ = covered;
    return {};
  }
  // What is committed is durable elsewhere, before the journal hears of it.
  Result<void> commit(Journal& journal, uint64_t sequence) {
    committed_ = std::max(committed_, sequence);
    return journal.release(committed_);
  }

  void power_was_cut() { appended_ = std::max(synced_, committed_); }

  // Null, when opening or replaying fails.
  std::unique_ptr<Journal> reopen(io::FileSystem& fs,
                                  const JournalOptions& options = small_options()) {
    auto journal = Journal::open(fs, kJournalPath, options);
    error_ = journal.ok() ? Error() : journal.error();
    if (!journal.ok()) return nullptr;
    const auto visited = replay_all(**journal, committed_);
    error_ = visited.ok() ? Error() : visited.error();
    if (!visited.ok()) return nullptr;
    check(*visited, **journal);
    return std::move(*journal);
  }
  const Error& error() const { return error_; }

  uint64_t appended() const { return appended_; }
  uint64_t synced() const { return synced_; }
  uint64_t committed() const { return committed_; }
  const Entry& entry(uint64_t sequence) const { return entries_[sequence - 1]; }

 private:
  static void check_read(const Visited& one, Journal& journal) {
    Bytes content(one.entry.content.size());
    const Result<void> read = journal.read(one.place, 0, content);
    if (read.ok()) {
      ASSERT_TRUE(same_bytes(content, one.entry.content));
    } else {  // Of a file system that fails.
      ASSERT_NE(read.error().os_errno, 0) << read.error().to_string();
    }
  }

  void check(const std::vector<Visited>& visited, Journal& journal) {
    uint64_t sequence = committed_;
    for (const Visited& one : visited) {
      ASSERT_EQ(one.place.sequence, ++sequence);
      ASSERT_LE(sequence, entries_.size()) << "more than was appended";
      ASSERT_EQ(one.entry, entries_[sequence - 1]) << "record " << sequence;
      check_read(one, journal);
    }
    ASSERT_GE(sequence, appended_) << "something is missing";
    appended_ = synced_ = sequence;
    entries_.resize(sequence);
    const Journal::Usage usage = journal.usage();
    EXPECT_EQ(usage.last, sequence);
    EXPECT_EQ(usage.synced, sequence);
    EXPECT_EQ(usage.released, committed_);
  }

  uint64_t made_ = 0;
  std::vector<Entry> entries_;  // By sequence, from 1 on. There may be one more than was appended.
  uint64_t appended_ = 0;
  uint64_t synced_ = 0;
  uint64_t committed_ = 0;
  Error error_;
};

}  // namespace penstock::volume
