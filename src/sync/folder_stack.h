#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "sync/folder_names.h"

namespace penstock::sync {

// A folder that is to be gone through, or the rest of one.
struct FolderTask {
  std::string folder;      // Empty or ends with '/'.
  bool in_target = false;  // The target has such a folder.
  bool has_extra = false;  // The target has in it what the source does not.
  // Why the target cannot have this folder, where it cannot: then all that is in it fails.
  std::string clash;

  // Once it was begun.
  std::unique_ptr<FolderNames> source;
  std::unique_ptr<FolderNames> target;  // Null where it is not needed.
  // Objects whose names begin the name that came last: "a" of "a/", with which a tree cannot hold
  // it.
  std::vector<std::string> open_names;
  // What names look like where case does not count, and what they are.
  std::unordered_map<std::string, std::string> folded;
};

// Work for several threads, last in first out: what is deep comes before what is wide, so that few
// folders wait however many there are.
// Threads: all calls from any thread.
class FolderStack {
 public:
  explicit FolderStack(std::stop_token stop) : stop_(std::move(stop)) {}

  void push(std::unique_ptr<FolderTask> task);
  // Waits for a task. Null when none is left and nobody is at work who could add one, or on stop.
  std::unique_ptr<FolderTask> pop();
  // Who popped a task is done with it, and with pushing.
  void done();

 private:
  const std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<FolderTask>> tasks_;
  size_t at_work_ = 0;
};

}  // namespace penstock::sync
