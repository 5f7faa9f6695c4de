// What a walk does with each name it finds.
#include <fmt/core.h>

#include "base/log.h"
#include "sync/walker.h"

namespace penstock::sync {

namespace {

constexpr size_t kBlockedMax = 4096;

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kNotFound;
}

}  // namespace

void Walker::visit(FolderStack& stack, const FolderSeen& seen, Pair& pair) {
  if (!pair.clash.empty()) return visit_clash(stack, pair);
  const std::string& key = pair.source.key;
  Result<void> visited;
  if (pair.source.kind == EntryKind::kFolder) {
    visited = visit_folder(stack, seen, pair);
  } else if (pair.source.kind == EntryKind::kObject) {
    visited = visit_object(seen, pair);
  } else if (pair.source.kind == EntryKind::kLink) {
    visited = visit_link(seen, pair);
  } else if (pair.source.kind == EntryKind::kOdd) {
    visit_odd(pair.source);
  } else {
    context_.tally.skipped(key, "neither a file nor a directory");
  }
  if (!visited.ok()) context_.tally.failed(key, visited.error());
}

// All that is in such a folder fails, each object by its name: nothing is left out unsaid.
void Walker::visit_clash(FolderStack& stack, const Pair& pair) {
  if (pair.source.kind == EntryKind::kOdd) return visit_odd(pair.source);
  const bool is_folder = pair.source.kind == EntryKind::kFolder;
  if (is_folder) {
    auto task = std::make_unique<FolderTask>();
    task->folder = pair.source.key;
    task->clash = pair.clash;
    stack.push(std::move(task));
  }
  // A directory counts by itself, because it may be empty.
  if (is_folder && !context_.from_tree()) return;
  if (!is_folder) context_.tally.listed(1);
  context_.tally.failed(pair.source.key, make_error(ErrorCode::kInvalid, pair.clash));
}

// Consoles make keys that end with '/', mostly empty, to show a folder.
void Walker::visit_odd(const Entry& entry) {
  const std::string& key = entry.key;
  const auto fail = [&](std::string text) {
    context_.tally.failed(key, make_error(ErrorCode::kInvalid, std::move(text)));
  };
  const bool marks_top = key.empty();
  const bool marks_folder =
      marks_top || (key.ends_with('/') && store::check_key(key.substr(0, key.size() - 1)).ok());
  if (!marks_folder) {
    fail(fmt::format("'{}' has an empty, '.' or '..' part, and cannot be named elsewhere", key));
  } else if (entry.size > 0) {
    fail(
        fmt::format("the key of {}/{} ends with '/', as no file and no copy of it can: its {} were "
                    "not copied",
                    context_.from.description(), key, format_size(entry.size)));
  } else if (!marks_top) {
    context_.tally.skipped(key, "an empty key that ends with '/', which marks a folder");
  }
}

Result<void> Walker::check_name(const Pair& pair) const {
  std::string_view key = pair.source.key;
  if (key.ends_with('/')) key.remove_suffix(1);
  if (context_.to_tree()) return TreeTarget::check_name(key);
  const store::Capabilities there = context_.to.store->capabilities();
  if (!there.any_bytes && !is_utf8(key)) {
    return make_error(ErrorCode::kInvalid, "its name is not UTF-8, which keys there must be");
  }
  if (key.size() > there.key_bytes_max) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("its path has {} bytes: keys in {} have at most {}", key.size(),
                                  context_.to.description(), there.key_bytes_max));
  }
  return store::check_key(key);
}

Result<bool> Walker::block(const std::string& key, std::string_view what) {
  if (context_.options.delete_extra && !is_last_) {
    std::lock_guard lock(mutex_);
    if (leftovers_.blocked.size() < kBlockedMax) {
      leftovers_.blocked.push_back(key);
      return true;
    }
  }
  return make_error(ErrorCode::kExists,
                    fmt::format("{} has {} of that name, which stays unless what only the target "
                                "has is deleted",
                                context_.to.description(), what));
}

Result<void> Walker::visit_folder(FolderStack& stack, const FolderSeen& seen, const Pair& pair) {
  PENSTOCK_TRY(check_name(pair));
  const std::string& key = pair.source.key;
  auto task = std::make_unique<FolderTask>();
  task->folder = key;
  task->in_target = pair.target.has_value();
  if (context_.to_tree()) {
    std::optional<io::FileInfo> there;
    if (seen.in_target) there = PENSTOCK_TRY(context_.tree->look(key));
    if (there && there->kind != io::FileKind::kDirectory) {
      const bool is_link = there->kind == io::FileKind::kSymlink;
      const bool later = PENSTOCK_TRY(block(key, is_link ? "a symbolic link" : "a file"));
      if (later && !context_.options.dry_run) return {};
      there.reset();
    }
    task->in_target = there.has_value();
    if (context_.from_tree()) PENSTOCK_TRY(keep_folder(key, there));
  }
  stack.push(std::move(task));
  return {};
}

// Both sides are trees: an empty directory is kept too, and so are permission bits.
Result<void> Walker::keep_folder(const std::string& folder,
                                 const std::optional<io::FileInfo>& there) {
  if (!context_.filters.selects(folder)) return {};
  if (!there) {
    if (context_.options.dry_run) return {};
    return context_.tree->make_folder(folder);
  }
  const Result<io::FileInfo> source = context_.from.file_system->stat_link(source_path(folder));
  if (!source.ok()) return is_gone(source.error()) ? Result<void>() : source.error();
  if ((source->mode & kModeBits) == (there->mode & kModeBits)) return {};
  context_.tally.act(Action::kAttributes, folder, 0, "mode");
  if (context_.options.dry_run) return {};
  return context_.tree->set_folder_mode(folder, source->mode);
}

Result<void> Walker::visit_object(const FolderSeen& seen, const Pair& pair) {
  const Entry& source = pair.source;
  CopyItem item;
  item.key = source.key;
  item.to = source.key;
  item.source = {source.size, source.mtime_ns, source.etag};
  if (context_.from_tree()) {
    const Result<io::FileInfo> info = context_.from.file_system->stat_link(source_path(source.key));
    if (!info.ok() && is_gone(info.error())) return {};  // Since it was listed.
    if (!info.ok()) return info.error();
    if (info->kind != io::FileKind::kFile) {
      return make_error(ErrorCode::kChanged, "it was replaced while the folder was looked at");
    }
    item.source = {info->size, info->mtime_ns, ""};
    item.mode = info->mode & kModeBits;
  }
  return offer(seen, pair, std::move(item));
}

Result<void> Walker::visit_link(const FolderSeen& seen, const Pair& pair) {
  if (!context_.to_tree()) return visit_followed_link(seen, pair);
  context_.tally.listed(1);
  PENSTOCK_TRY(check_name(pair));
  const std::string& key = pair.source.key;
  CopyItem item;
  item.key = key;
  item.to = key;
  item.leads_to = PENSTOCK_TRY(context_.from.file_system->read_link(source_path(key)));
  const std::optional<io::FileInfo> there = PENSTOCK_TRY(look(seen, pair));
  item.is_new = !there;
  item.why = there ? "link" : "new";
  if (there && there->kind == io::FileKind::kDirectory) {
    const bool later = PENSTOCK_TRY(block(key, "a directory"));
    if (later && !context_.options.dry_run) return {};
  }
  if (there && there->kind == io::FileKind::kSymlink) {
    const Result<std::string> says =
        context_.to.file_system->read_link(context_.tree->path_of(key));
    if (says.ok() && *says == *item.leads_to) {
      context_.tally.same();
      return {};
    }
  }
  copier_.add(std::move(item));
  return {};
}

// A store has no links: those that lead to files of the tree become objects.
Result<void> Walker::visit_followed_link(const FolderSeen& seen, const Pair& pair) {
  const std::string& key = pair.source.key;
  const Result<store::ObjectInfo> info =
      context_.from.store->head(key, context_.call<store::CallOptions>());
  if (!info.ok() && info.error().code == ErrorCode::kNotFound) {
    context_.tally.skipped(key, "a link that leads out of the tree, or to no file");
    return {};
  }
  if (!info.ok()) return info.error();
  CopyItem item;
  item.key = key;
  item.to = key;
  item.source = {info->size, info->mtime_ns, ""};
  item.mode = info->kept_mode;
  return offer(seen, pair, std::move(item));
}

Result<std::optional<io::FileInfo>> Walker::look(const FolderSeen& seen, const Pair& pair) const {
  if (!seen.in_target) return std::optional<io::FileInfo>();
  // Also when no such name was listed: a directory is listed with a '/'.
  std::optional<io::FileInfo> there = PENSTOCK_TRY(context_.tree->look(pair.source.key));
  const bool is_kind_of_its_own = there && there->kind == io::FileKind::kDirectory;
  const bool is_listed = pair.target || !seen.target_listed || is_kind_of_its_own;
  if (there && !is_listed && context_.tree->folds_case()) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} has a name that differs from it only by case", context_.to.description()));
  }
  return there;
}

// Compares it with what the target has.
Result<void> Walker::offer(const FolderSeen& seen, const Pair& pair, CopyItem item) {
  context_.tally.listed(1);
  PENSTOCK_TRY(check_name(pair));
  if (!context_.to_tree()) {
    if (pair.target) {
      return offer_against({pair.target->size, pair.target->mtime_ns, pair.target->etag},
                           std::nullopt, std::move(item));
    }
  } else if (const std::optional<io::FileInfo> there = PENSTOCK_TRY(look(seen, pair))) {
    if (there->kind == io::FileKind::kFile) {
      return offer_against({there->size, there->mtime_ns, ""}, there->mode & kModeBits,
                           std::move(item));
    }
    if (there->kind == io::FileKind::kDirectory) {
      const bool later = PENSTOCK_TRY(block(item.key, "a directory"));
      if (later && !context_.options.dry_run) return {};
    }
    item.why = "kind";
    copier_.add(std::move(item));
    return {};
  }
  item.is_new = true;
  item.why = "new";
  copier_.add(std::move(item));
  return {};
}

Result<void> Walker::offer_against(const Side& there, std::optional<uint32_t> mode_there,
                                   CopyItem item) {
  const Decision decision = compare(item.source, there, context_.rules());
  item.there = there;
  item.mode_there = mode_there;
  item.why = decision.why;
  switch (decision.verdict) {
    case Verdict::kSame:
      context_.tally.same();
      return copier_.keep_attributes(item);
    case Verdict::kDiffers:
      break;
    case Verdict::kAskKeptTime:
      item.step = CopyItem::Step::kAskKeptTime;
      break;
    case Verdict::kReadBytes:
      item.step = CopyItem::Step::kReadBytes;
      break;
  }
  copier_.add(std::move(item));
  return {};
}

void Walker::visit_one(const std::string& key, const std::string& to) {
  const auto visit = [&]() -> Result<void> {
    CopyItem item;
    item.key = key;
    item.to = to;
    Pair pair;
    pair.source.key = to;
    FolderSeen seen{.in_target = !context_.target_missing()};
    if (context_.from_tree()) {
      const io::FileInfo info =
          PENSTOCK_TRY(context_.from.file_system->stat_link(source_path(key)));
      if (info.kind == io::FileKind::kSymlink && key == to) return visit_link(seen, pair);
      item.mode = info.mode & kModeBits;
    }
    const store::ObjectInfo info =
        PENSTOCK_TRY(context_.from.store->head(key, context_.call<store::CallOptions>()));
    item.source = {info.size, info.mtime_ns, info.etag};
    if (!context_.to_tree()) {
      const Result<store::ObjectInfo> there =
          context_.to.store->head(to, context_.call<store::CallOptions>());
      if (!there.ok() && there.error().code != ErrorCode::kNotFound) return there.error();
      if (there.ok()) {
        pair.target.emplace();
        pair.target->size = there->size;
        pair.target->mtime_ns = there->mtime_ns;
        pair.target->etag = there->etag;
      }
    }
    return offer(seen, pair, std::move(item));
  };
  if (const Result<void> visited = visit(); !visited.ok()) {
    context_.tally.failed(key, visited.error());
  }
}

}  // namespace penstock::sync
