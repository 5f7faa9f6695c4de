#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sync/context.h"
#include "sync/copier.h"
#include "sync/folder_stack.h"

namespace penstock::sync {

// What a walk found that has to wait until the target was tidied up.
struct Leftovers {
  // Folders in which the target has what the source does not. When they are too many all folders
  // count as such.
  std::vector<std::string> extra_folders;
  bool extra_everywhere = false;
  // Objects and folders (with '/') whose names the target uses for something else.
  std::vector<std::string> blocked;
};

// Goes through the folders of the source, several at once, compares what is there with the target,
// and hands what differs to the copier.
// Threads: one at a time; it has threads of its own.
class Walker {
 public:
  Walker(Context& context, Copier& copier);

  // All of the source. Returns when all of it was seen, or on stop.
  void run();
  // The same for a single object, which is called `to` at the target.
  void visit_one(const std::string& key, const std::string& to);
  // What was in the way may be gone by now; what is still there is a failure.
  void run_blocked(const std::vector<std::string>& blocked);
  Leftovers take_leftovers();

 private:
  // One name of the source, and what the target has of it.
  struct Pair {
    Entry source;
    std::optional<Entry> target;
    // Why the target cannot have it beside another name of the source; mostly empty.
    std::string clash;
  };
  using Page = std::vector<Pair>;
  // What is known of the folder of a pair.
  struct FolderSeen {
    bool in_target = false;
    bool target_listed = false;  // What has no Pair::target is not there.
  };

  void walk_all(FolderStack& stack);
  void work(FolderStack& stack);
  void walk(FolderStack& stack, std::unique_ptr<FolderTask> task);
  void begin(FolderTask& task);
  Result<bool> take_page(FolderTask& task, Page& page);
  bool is_ours(const Entry& entry) const;
  Result<void> find_in_target(FolderTask& task, Pair& pair);
  Result<void> look_for_extras(FolderTask& task);
  void note_extra(FolderTask& task, const Entry& entry);
  void find_clash(FolderTask& task, Pair& pair);

  void visit(FolderStack& stack, const FolderSeen& seen, Pair& pair);
  void visit_clash(FolderStack& stack, const Pair& pair);
  void visit_odd(const Entry& entry);
  Result<void> visit_folder(FolderStack& stack, const FolderSeen& seen, const Pair& pair);
  Result<void> visit_object(const FolderSeen& seen, const Pair& pair);
  Result<void> visit_link(const FolderSeen& seen, const Pair& pair);
  Result<void> visit_followed_link(const FolderSeen& seen, const Pair& pair);

  Result<void> check_name(const Pair& pair) const;
  Result<std::optional<io::FileInfo>> look(const FolderSeen& seen, const Pair& pair) const;
  Result<void> offer(const FolderSeen& seen, const Pair& pair, CopyItem item);
  Result<void> offer_against(const Side& there, std::optional<uint32_t> mode_there, CopyItem item);
  Result<void> keep_folder(const std::string& folder, const std::optional<io::FileInfo>& there);
  // Whether the name can be taken after what is in its way was deleted: then it comes back later.
  Result<bool> block(const std::string& key, std::string_view what);

  std::string source_path(std::string_view key) const;

  Context& context_;
  Copier& copier_;
  bool is_last_ = false;  // Nothing more will be tidied up.
  std::mutex mutex_;
  Leftovers leftovers_;
};

}  // namespace penstock::sync
