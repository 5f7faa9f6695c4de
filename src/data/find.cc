#include "data/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "data/addresses.h"
#include "data/links.h"
#include "data/sample_names.h"
#include "data/sidecar.h"
#include "store/selection.h"

namespace penstock::data {

namespace {

constexpr uint64_t kWidsBytesMax = 256 * kMiB;
constexpr size_t kMissingShown = 3;

constexpr std::array<std::string_view, 10> kTarEndings = {
    ".tar",  ".tar.gz",  ".tgz",  ".tar.zst", ".tar.zstd",
    ".tzst", ".tar.bz2", ".tbz2", ".tar.xz",  ".txz"};

bool ends_with_one_of(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [name](std::string_view end) { return name.ends_with(end); });
}

class Finder {
 public:
  Finder(const std::vector<std::string>& addresses, const OpenOptions& options, io::FileSystem& fs)
      : addresses_(addresses), options_(options), fs_(fs) {}

  Result<Found> run() {
    if (options_.file_system == nullptr) {
      for (std::string& address : addresses_) address = PENSTOCK_TRY(make_path_absolute(address));
    }
    PENSTOCK_TRY(expand_wids());
    PENSTOCK_TRY(list());
    if (options_.cancel.stop_requested()) {
      return make_error(ErrorCode::kCancelled, "opening a dataset was cancelled");
    }
    found_.format = options_.format == Format::kAuto ? PENSTOCK_TRY(guess()) : options_.format;
    switch (found_.format) {
      case Format::kTar:
        take_shards(NameKind::kTar);
        break;
      case Format::kTfRecord:
        take_shards(NameKind::kTfRecord);
        break;
      case Format::kFolder:
        PENSTOCK_TRY(take_classes());
        break;
      default:
        PENSTOCK_TRY(take_files());
    }
    return std::move(found_);
  }

 private:
  struct Listed {
    uint32_t source = 0;
    NameKind kind = NameKind::kOther;
    bool in_folder = false;  // Below the root.
    LooseFile file;
  };

  store::CallOptions call() const {
    store::CallOptions call;
    call.cancel = options_.cancel;
    return call;
  }

  Result<store::Selection> select(const std::vector<std::string>& addresses) {
    return store::Selection::parse(addresses, fs_);
  }

  Result<std::vector<Source>> open_sources(const store::Selection& selection) {
    std::vector<Source> sources;
    for (const std::string& address : selection.stores()) {
      sources.push_back(PENSTOCK_TRY(
          open_source(address, fs_, options_.file_system == nullptr, options_.s3, options_.cache)));
    }
    return sources;
  }

  Result<void> visit_all(const store::Selection& selection, const std::vector<Source>& sources,
                         const store::Selection::Visit& visit) {
    std::vector<store::ObjectStore*> stores;
    for (const Source& source : sources) stores.push_back(source.store.get());
    std::string missing;
    size_t count = 0;
    PENSTOCK_TRY(selection.for_each(
        stores, visit,
        [&](const std::string& address) {
          if (++count <= kMissingShown) missing += (missing.empty() ? "" : ", ") + address;
        },
        call()));
    if (count == 0) return {};
    if (count > kMissingShown) missing += fmt::format(" and {} more", count - kMissingShown);
    return make_error(ErrorCode::kNotFound, fmt::format("there is nothing at {}", missing));
  }

  // A list of shards stands for its shards.
  Result<void> expand_wids() {
    std::vector<std::string> expanded;
    for (const std::string& address : addresses_) {
      if (!is_wids_address(address)) {
        expanded.push_back(address);
        continue;
      }
      const std::string text = PENSTOCK_TRY(read_text(address));
      const Result<std::vector<WidsShard>> shards = parse_wids(text);
      if (!shards.ok()) return shards.error().with_context(address);
      for (const WidsShard& shard : *shards) expanded.push_back(wids_address(address, shard.url));
    }
    addresses_ = std::move(expanded);
    return {};
  }

  Result<std::string> read_text(const std::string& address) {
    const store::Selection selection = PENSTOCK_TRY(select({address}));
    const std::vector<Source> sources = PENSTOCK_TRY(open_sources(selection));
    std::string key;
    PENSTOCK_TRY(visit_all(selection, sources, [&](size_t, const store::ObjectInfo& object) {
      key = object.key;
      return false;
    }));
    store::GetOptions options;
    options.cancel = options_.cancel;
    const std::vector<std::byte> bytes =
        PENSTOCK_TRY(store::read_object(*sources[0].store, key, kWidsBytesMax, options));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Result<void> list() {
    if (addresses_.empty()) {
      return make_error(ErrorCode::kInvalid,
                        "a dataset needs an address: a path, s3://… or pen://…");
    }
    if (addresses_.size() == 1) root_ = root_of_address(addresses_[0]);
    const store::Selection selection = PENSTOCK_TRY(select(addresses_));
    found_.sources = PENSTOCK_TRY(open_sources(selection));
    const Result<void> visited = visit_all(selection, found_.sources,
                                           [this](size_t source, const store::ObjectInfo& object) {
                                             add(static_cast<uint32_t>(source), object);
                                             return !options_.cancel.stop_requested();
                                           });
    if (!visited.ok() && visited.error().code != ErrorCode::kNotFound) return visited;
    // A link is the better explanation of something that is not there.
    for (uint32_t i = 0; i < found_.sources.size(); ++i) PENSTOCK_TRY(check_links(i));
    return visited;
  }

  Result<void> check_links(uint32_t index) {
    const Source& source = found_.sources[index];
    LinkSearch search{source.root, {source.root}, false, {}};
    for (const std::string& address : addresses_) {
      search.deep = search.deep || path_of_address(address) == source.root;
    }
    if (!search.deep) {
      for (const Listed& listed : listed_) {
        if (listed.source != index) continue;
        const std::string folder = io::parent_path(source.path_of(listed.file.key));
        if (folder != search.folders.back()) search.folders.push_back(folder);
      }
    }
    search.is_wanted = [&](const std::string& path, bool is_folder) {
      return (is_folder || is_of_format(kind_of_name(path))) &&
             (search.deep || is_named_by(addresses_, path));
    };
    return refuse_lost_links(fs_, search);
  }

  // Whether a file of this kind would be taken.
  bool is_of_format(NameKind kind) const {
    switch (options_.format) {
      case Format::kTar:
        return kind == NameKind::kTar;
      case Format::kTfRecord:
        return kind == NameKind::kTfRecord;
      case Format::kFolder:
        return kind == NameKind::kImage;
      case Format::kFiles:
        return kind != NameKind::kHidden;
      case Format::kAuto:
        break;
    }
    return kind != NameKind::kHidden && kind != NameKind::kOther;
  }

  void add(uint32_t source, const store::ObjectInfo& object) {
    const NameKind kind = kind_of_name(object.key);
    const bool one_file = options_.format == Format::kTar || options_.format == Format::kTfRecord ||
                          kind == NameKind::kTar || kind == NameKind::kTfRecord;
    if (one_file && kind != NameKind::kHidden) found_.shards.push_back({source, object});
    const bool in_folder =
        object.key.starts_with(root_) && object.key.find('/', root_.size()) != std::string::npos;
    // Files of this machine are read by their paths, without one.
    LooseFile file{object.key, object.size, std::nullopt};
    if (!found_.sources[source].by_path) file.etag = object.etag;
    listed_.push_back({source, kind, in_folder, std::move(file)});
  }

  uint64_t count(NameKind kind) const {
    return static_cast<uint64_t>(std::ranges::count(listed_, kind, &Listed::kind));
  }

  Result<Format> guess() const {
    const uint64_t tars = count(NameKind::kTar);
    const uint64_t records = count(NameKind::kTfRecord);
    const uint64_t images = count(NameKind::kImage);
    const auto in_folders =
        static_cast<uint64_t>(std::ranges::count_if(listed_, [](const Listed& listed) {
          return listed.kind == NameKind::kImage && listed.in_folder;
        }));
    const int kinds = (tars > 0) + (records > 0) + (in_folders > 0) + (images > in_folders);
    if (kinds > 1) {
      return make_error(
          ErrorCode::kInvalid,
          fmt::format(
              "these are of several kinds: {} tar shards, {} TFRecord files, {} images in "
              "folders, {} images beside them. Say which is meant by format (tar, tfrecord, "
              "folder, files), or by a pattern such as '*.tar'",
              tars, records, in_folders, images - in_folders));
    }
    if (tars > 0) return Format::kTar;
    if (records > 0) return Format::kTfRecord;
    return in_folders > 0 && addresses_.size() == 1 ? Format::kFolder : Format::kFiles;
  }

  // Those with the right names; where none has, all.
  void take_shards(NameKind kind) {
    const auto has_name = [kind](const FoundShard& shard) {
      return kind_of_name(shard.object.key) == kind;
    };
    if (std::ranges::any_of(found_.shards, has_name)) {
      std::erase_if(found_.shards, [&](const FoundShard& shard) { return !has_name(shard); });
    }
  }

  Result<void> take_files() {
    found_.shards.clear();
    std::map<uint32_t, std::vector<LooseFile>> by_source;
    for (Listed& listed : listed_) {
      if (listed.kind != NameKind::kHidden)
        by_source[listed.source].push_back(std::move(listed.file));
    }
    for (auto& [source, files] : by_source) {
      for (LooseShard& shard : PENSTOCK_TRY(group_files(std::move(files)))) {
        found_.folders.push_back({source, std::move(shard)});
      }
    }
    return {};
  }

  Result<void> take_classes() {
    found_.shards.clear();
    if (addresses_.size() != 1) {
      return make_error(ErrorCode::kInvalid,
                        "folders of classes are given by one address, the folder they are in");
    }
    std::set<std::string> classes = PENSTOCK_TRY(folders_on_disk());
    std::vector<LooseFile> files;
    for (Listed& listed : listed_) {
      if (!listed.in_folder) continue;
      const std::string& key = listed.file.key;
      classes.insert(key.substr(root_.size(), key.find('/', root_.size()) - root_.size()));
      files.push_back(std::move(listed.file));
    }
    found_.classes.assign(classes.begin(), classes.end());
    for (LooseShard& shard : PENSTOCK_TRY(group_classes(std::move(files), root_, found_.classes))) {
      found_.folders.push_back({0, std::move(shard)});
    }
    return {};
  }

  // A listing of objects shows neither empty folders nor links to folders: labels would be wrong.
  Result<std::set<std::string>> folders_on_disk() {
    std::set<std::string> folders;
    const std::string& address = addresses_[0];
    const Source& source = found_.sources[0];
    if (source.root.empty() || address.find_first_of("*?[{") != std::string::npos) return folders;
    std::vector<std::string> links;
    PENSTOCK_TRY(fs_.list(source.root, [&](const io::DirectoryEntry& entry) {
      if (entry.kind == io::FileKind::kDirectory) folders.insert(entry.name);
      if (entry.kind == io::FileKind::kSymlink) links.push_back(entry.name);
      return true;
    }));
    for (const std::string& link : links) {
      const Result<io::FileInfo> info = fs_.stat(source.path_of(link));
      if (!info.ok() || info->kind != io::FileKind::kDirectory) continue;
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{} is a symbolic link to a folder, which is not followed: use "
                                    "the folder itself, or a bind mount",
                                    source.path_of(link)));
    }
    return folders;
  }

  std::vector<std::string> addresses_;
  const OpenOptions& options_;
  io::FileSystem& fs_;
  std::string root_;
  Found found_;
  std::vector<Listed> listed_;
};

}  // namespace

NameKind kind_of_name(std::string_view key) {
  const std::string_view name = base_name(key);
  if (name.starts_with('.')) return NameKind::kHidden;
  if (ends_with_one_of(name, kTarEndings)) return NameKind::kTar;
  constexpr std::array<std::string_view, 3> kAbout = {".idx", ".index", ".json"};
  if (ends_with_one_of(name, kAbout)) return NameKind::kOther;
  if (name.find(".tfrecord") != std::string_view::npos) return NameKind::kTfRecord;
  return is_image_name(name) ? NameKind::kImage : NameKind::kOther;
}

Result<Found> find_shards(const std::vector<std::string>& addresses, const OpenOptions& options,
                          io::FileSystem& fs) {
  return Finder(addresses, options, fs).run();
}

}  // namespace penstock::data
