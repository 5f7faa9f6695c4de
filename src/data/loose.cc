#include "data/loose.h"

#include <fmt/core.h>

#include <algorithm>

#include "data/sample_names.h"
#include "data/shard_parser.h"

namespace penstock::data {

namespace {

std::string_view parent_of(std::string_view key) {
  return key.substr(0, key.size() - base_name(key).size());
}

// By folder first: what a folder holds itself comes before what its folders hold.
void sort_by_folder(std::vector<LooseFile>& files) {
  std::ranges::sort(files, [](const LooseFile& a, const LooseFile& b) {
    const std::string_view folder_a = parent_of(a.key);
    const std::string_view folder_b = parent_of(b.key);
    // As sorted without the '/' at the end, so that "a" comes before "a-b", and that before "a/b".
    const std::string_view bare_a = folder_a.substr(0, folder_a.empty() ? 0 : folder_a.size() - 1);
    const std::string_view bare_b = folder_b.substr(0, folder_b.empty() ? 0 : folder_b.size() - 1);
    return bare_a != bare_b ? bare_a < bare_b : base_name(a.key) < base_name(b.key);
  });
}

// After the file was added, if it was: not all belong to a sample.
void keep_etag(LooseShard& shard, const LooseFile& file, uint64_t members_before,
               const IndexBuilder& builder) {
  if (file.etag && builder.members() > members_before) shard.etags.add(*file.etag);
}

Result<LooseShard> finish(LooseShard shard, IndexBuilder& builder) {
  shard.index = PENSTOCK_TRY(ColumnIndex::parse(builder.finish(), kShardBytesMax));
  return shard;
}

}  // namespace

Result<std::vector<LooseShard>> group_files(std::vector<LooseFile> files) {
  sort_by_folder(files);
  std::vector<LooseShard> shards;
  for (size_t i = 0; i < files.size();) {
    LooseShard shard;
    shard.folder = parent_of(files[i].key);
    IndexBuilder builder;
    for (; i < files.size() && parent_of(files[i].key) == shard.folder; ++i) {
      const uint64_t before = builder.members();
      const Result<void> added = builder.add_named(base_name(files[i].key), 0, files[i].size);
      if (!added.ok()) return added.error().with_context(fmt::format("folder '{}'", shard.folder));
      keep_etag(shard, files[i], before, builder);
      shard.bytes += files[i].size;
    }
    if (builder.samples() > 0) shards.push_back(PENSTOCK_TRY(finish(std::move(shard), builder)));
  }
  return shards;
}

Result<std::vector<LooseShard>> group_classes(std::vector<LooseFile> files, const std::string& root,
                                              const std::vector<std::string>& classes) {
  std::erase_if(files, [&](const LooseFile& file) {
    return !file.key.starts_with(root) || !is_image_name(file.key) ||
           file.key.find('/', root.size()) == std::string::npos;
  });
  sort_by_folder(files);
  std::vector<IndexBuilder> builders(classes.size());
  std::vector<LooseShard> shards(classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    shards[i].folder = fmt::format("{}{}/", root, classes[i]);
    shards[i].label = static_cast<int32_t>(i);
  }
  for (const LooseFile& file : files) {
    const std::string_view below = std::string_view(file.key).substr(root.size());
    const std::string_view name = below.substr(0, below.find('/'));
    const auto at = std::ranges::lower_bound(classes, name);
    if (at == classes.end() || *at != name) continue;
    const auto label = static_cast<size_t>(at - classes.begin());
    const std::string_view path = below.substr(name.size() + 1);
    const size_t dot = path.rfind('.');
    PENSTOCK_TRY(builders[label].add_alone(path.substr(0, dot), path.substr(dot + 1), file.size));
    keep_etag(shards[label], file, builders[label].members() - 1, builders[label]);
    shards[label].bytes += file.size;
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    if (builders[i].samples() == 0) {
      return make_error(
          ErrorCode::kInvalid,
          fmt::format("the class folder '{}' has no images (jpg, jpeg, png, ppm, bmp, "
                      "pgm, tif, tiff, webp)",
                      shards[i].folder));
    }
    shards[i] = PENSTOCK_TRY(finish(std::move(shards[i]), builders[i]));
  }
  return shards;
}

}  // namespace penstock::data
