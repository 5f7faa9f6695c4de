#pragma once

#include <string>
#include <vector>

#include "sync/context.h"
#include "sync/folder_names.h"
#include "sync/walker.h"

namespace penstock::sync {

// Deletes what only the target has, filters permitting. Looks at both sides again: what has come to
// the source since the walk stays.
class Remover {
 public:
  explicit Remover(Context& context) : context_(context) {}

  // What is in the way of these, and nothing else. Failures go to the tally.
  void clear_way(const std::vector<std::string>& blocked);
  // All of it, several folders at once. Failures go to the tally.
  void run(const Leftovers& leftovers);

 private:
  Result<void> remove_in_way(const std::string& key);
  void tidy(const std::string& folder, bool with_folders_inside);
  Result<void> tidy_names(const std::string& folder, bool with_folders_inside);
  // What became of a folder that only the target has.
  struct Emptied {
    bool any = false;   // Something in it was removed,
    bool gone = false;  // and so was the directory.
  };
  Result<Emptied> empty_folder(const std::string& folder);
  Result<void> remove_extra(const Entry& entry, std::vector<std::string>& batch);
  Result<void> remove_batch(std::vector<std::string>& batch);
  std::unique_ptr<FolderNames> list_target(const std::string& folder) const;
  std::unique_ptr<FolderNames> list_source(const std::string& folder) const;
  void leave_odd(const std::string& key);
  void act(const std::string& key);

  Context& context_;
};

}  // namespace penstock::sync
