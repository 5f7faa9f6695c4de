// How the ranks of a run find each other and agree, over nothing but a directory that all of them see.
//
// Messages are files in ".penstock-tmp-RUN", each written once and seen whole or not at all. They need
// not survive anything: a run that dies takes them along, and the next one removes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/checkpoint.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Threads: all calls from any thread; exchange() from one.
class Session {
 public:
  // Rank 0 must hold the lease, and have removed what dead runs left. Where no run is named, waits until
  // all ranks are there: kTimeout names who is not, kBusy where a rank is there twice.
  static Result<std::unique_ptr<Session>> join(io::FileSystem& fs, const std::string& directory,
                                               const Ranks& ranks);
  // Rank 0 waits a moment for the others to leave, and removes the messages.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool leads() const { return ranks_.rank == 0; }
  const Ranks& ranks() const { return ranks_; }

  // Once per topic and rank.
  Result<void> put(const std::string& topic, std::string_view text);
  void put_failure(const std::string& topic, const Error& error);
  // Waits for it. What the rank reported as a failure is the error, with its rank.
  Result<std::string> get(uint32_t rank, const std::string& topic, Deadline deadline);
  // Of all ranks. kTimeout names all that are missing.
  Result<std::vector<std::string>> gather(const std::string& topic, Deadline deadline);
  // As Checkpointer::exchange().
  Result<std::vector<std::string>> exchange(const std::string& topic, const std::string& mine);

 private:
  Session(io::FileSystem& fs, std::string directory, Ranks ranks);
  Result<void> open();
  std::string message_path(uint32_t rank, const std::string& topic) const;

  io::FileSystem& fs_;
  const std::string directory_;
  const Ranks ranks_;
  const std::string path_;
  uint64_t exchanges_ = 0;
};

}  // namespace penstock::checkpoint
