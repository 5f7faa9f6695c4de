// One try at writing a checkpoint, or one rank's part of it: a directory under a name that nobody
// reads, and files in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/plan.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Whose files they are.
struct Place {
  std::string nonce;    // Of the attempt: no two have the same.
  bool shared = false;  // With other ranks.
  uint32_t rank = 0;
  uint32_t retry = 0;  // Names of files of an earlier try are not used again.
};

// ".penstock-tmp-NONCE"
std::string attempt_path(const std::string& directory, const std::string& nonce);

// Threads: one at a time; submit() of files as File says.
class Attempt {
 public:
  // Makes the files, names them in `plan` and reserves their space. kNoSpace, with nothing left behind,
  // where it is not there.
  static Result<std::unique_ptr<Attempt>> begin(io::FileSystem& fs, const std::string& directory,
                                                Plan& plan, io::CacheMode mode, const Place& place);
  // Removes what is ours, if it can: what stays has a name that nobody reads.
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  io::File& file(size_t index) { return *files_[index]; }
  // The file becomes another name of `existing`, and is not written. kUnsupported where it cannot.
  Result<void> link(size_t index, const std::string& existing);
  // After the last write: gives each file its size, makes all durable, closes them. A failure is final:
  // the bytes may be gone. Begin another one.
  Result<void> finish_files(const Plan& plan);
  // It is in other hands from here on.
  void hand_over() { ours_ = false; }

 private:
  Attempt(io::FileSystem& fs, const std::string& directory, const Place& place);
  Result<void> make_files(Plan& plan, io::CacheMode mode);
  Result<void> make_file(const FilePlan& plan, io::CacheMode mode);
  Result<void> remove_files();

  io::FileSystem& fs_;
  const std::string directory_;
  const Place place_;
  const std::string path_;
  std::vector<std::unique_ptr<io::File>> files_;  // Null where linked.
  std::vector<std::string> names_;
  bool ours_ = false;
};

}  // namespace penstock::checkpoint
