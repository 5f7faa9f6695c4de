#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "penstock/io.h"

namespace penstock::data {

// Files that are open, by number; those not used for longest are closed when there are too many.
// Threads: all calls from any thread.
// Lifetime: the destructor waits until none is used.
class OpenFiles {
 private:
  struct Entry;

 public:
  // A file that stays open for as long as this lives. It may be let go of inside the `done` of one of
  // the file's requests: the file is then closed by somebody else.
  class Use {
   public:
    Use(Use&& other) noexcept
        : files_(std::exchange(other.files_, nullptr)), entry_(other.entry_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (files_ != nullptr) files_->release(*entry_);
    }
    io::File& file() const;

   private:
    friend class OpenFiles;
    Use(OpenFiles* files, Entry* entry) : files_(files), entry_(entry) {}
    OpenFiles* files_;
    Entry* entry_;
  };

  // Opens file `number`.
  using Open = std::function<Result<std::unique_ptr<io::File>>(uint32_t number)>;

  OpenFiles(size_t limit, Open open) : limit_(limit), open_(std::move(open)) {}
  ~OpenFiles();

  Result<Use> use(uint32_t number);

  // A quarter of what the process may open, at most 512.
  static size_t default_limit();

 private:
  struct Entry {
    uint32_t number = 0;
    std::unique_ptr<io::File> file;
    size_t uses = 0;
  };
  using Entries = std::list<Entry>;  // Last used first.

  Entry* find(std::unique_lock<std::mutex>& held, uint32_t number);
  void evict(std::unique_lock<std::mutex>& held, Entries& evicted);
  void release(Entry& entry);

  const size_t limit_;
  const Open open_;
  std::mutex mutex_;
  std::condition_variable idle_;
  Entries entries_;
  std::unordered_map<uint32_t, Entries::iterator> by_number_;
  size_t uses_ = 0;
};

}  // namespace penstock::data
