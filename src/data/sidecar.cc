#include "data/sidecar.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "data/sample_names.h"
#include "data/tar.h"
#include "data/tfrecord.h"
#include "data/window_reader.h"

namespace penstock::data {

namespace {

constexpr uint64_t kSidecarBytesMax = kGiB;
constexpr size_t kFirstChecked = 64;  // Files at the beginning that must be exactly those,
constexpr size_t kSpotsChecked = 8;   // and single ones further on.

Error invalid(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, std::string(what));
}

// Words between single spaces, line by line.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ >= text_.size(); }
  // Nothing at the end of a line.
  std::optional<std::string_view> next() {
    if (at_end() || text_[at_] == '\n' || text_[at_] == '\r') return std::nullopt;
    const size_t end = std::min(text_.find_first_of(" \r\n", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end < text_.size() && text_[end] == ' ' ? end + 1 : end;
    return word;
  }
  std::optional<uint64_t> number() {
    const std::optional<std::string_view> word = next();
    uint64_t value = 0;
    if (!word) return std::nullopt;
    const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), value);
    if (error != std::errc() || end != word->data() + word->size()) return std::nullopt;
    return value;
  }
  // False when something is left in this line.
  bool end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_end()) return true;
    return text_[at_++] == '\n';
  }

 private:
  const std::string_view text_;
  size_t at_ = 0;
};

// One file of a line, which must lie behind `end`, the end of the file before.
Result<SidecarMember> parse_wds2idx_file(std::string_view extension, Words& words, uint64_t end,
                                         uint64_t shard_bytes) {
  const std::optional<uint64_t> offset = words.number();
  const std::optional<uint64_t> size = words.number();
  const std::optional<std::string_view> name = words.next();
  if (!offset || !size || !name) return invalid("a line that is not of version 1.2");
  const std::optional<SampleName> split = split_name(*name);
  if (!split || split->extension != extension) return invalid("a name without its extension");
  if (*offset % kTarBlockBytes != 0 || *offset < end + kTarBlockBytes || *offset > shard_bytes ||
      *size > shard_bytes - *offset) {
    return invalid("offsets that are not in the shard");
  }
  return SidecarMember{*name, *offset, *size};
}

}  // namespace

Result<std::vector<SidecarMember>> parse_wds2idx(std::string_view text, uint64_t shard_bytes) {
  Words words(text);
  const std::optional<std::string_view> version = words.next();
  const std::optional<uint64_t> samples = words.number();
  if (version != "v1.2" || !samples || !words.end_line()) return invalid("not of version 1.2");
  std::vector<SidecarMember> members;
  uint64_t lines = 0;
  for (uint64_t end = 0; !words.at_end(); ++lines) {
    while (const std::optional<std::string_view> extension = words.next()) {
      members.push_back(PENSTOCK_TRY(parse_wds2idx_file(*extension, words, end, shard_bytes)));
      end = whole_blocks(members.back().offset + members.back().size);
    }
    if (!words.end_line()) return invalid("a line that is not of version 1.2");
  }
  if (lines != *samples) return invalid("another number of lines than it says");
  return members;
}

Result<std::vector<SidecarMember>> parse_tfrecord2idx(std::string_view text, uint64_t shard_bytes) {
  Words words(text);
  std::vector<SidecarMember> records;
  uint64_t end = 0;
  while (!words.at_end()) {
    const std::optional<uint64_t> offset = words.number();
    const std::optional<uint64_t> size = words.number();
    if (!offset || !size || !words.end_line()) return invalid("a line that is not two numbers");
    if (*offset != end || *size < kRecordFrameBytes || *size > shard_bytes - end) {
      return invalid("records that do not follow each other");
    }
    records.push_back({"", *offset, *size});
    end += *size;
  }
  if (end != shard_bytes) return invalid("it ends elsewhere than the shard");
  return records;
}

Result<std::vector<WidsShard>> parse_wids(std::string_view text) {
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_wids = root.is_object() && root.contains("__kind__") &&
                       root["__kind__"] == "wids-shard-index-v1" && root.contains("shardlist") &&
                       root["shardlist"].is_array();
  if (!is_wids) {
    return invalid("not a wids index: expected \"__kind__\": \"wids-shard-index-v1\"");
  }
  std::vector<WidsShard> shards;
  for (const nlohmann::json& shard : root["shardlist"]) {
    if (!shard.is_object() || !shard.contains("url") || !shard["url"].is_string() ||
        !shard.contains("nsamples") || !shard["nsamples"].is_number_unsigned()) {
      return invalid("a wids index with a shard that has no url or no nsamples");
    }
    shards.push_back({shard["url"].get<std::string>(), shard["nsamples"].get<uint64_t>()});
  }
  return shards;
}

namespace {

// What a sidecar may be called.
std::vector<std::string> sidecar_keys(const std::string& key, Format format) {
  if (format == Format::kTar) {
    return key.ends_with(".tar") ? std::vector{key.substr(0, key.size() - 4) + ".idx"}
                                 : std::vector<std::string>();
  }
  std::vector<std::string> keys = {key + ".idx"};
  const size_t dot = key.rfind('.');
  if (dot != std::string::npos && key.find('/', dot) == std::string::npos) {
    keys.push_back(key.substr(0, dot) + ".idx");
  }
  return keys;
}

bool names_agree(std::string_view name, const std::string& in_header) {
  // Longer ones are cut off there, and whole in an extended header.
  constexpr size_t kNameBytesMax = 99;
  return name == in_header || (name.size() > kNameBytesMax && in_header.size() >= kNameBytesMax &&
                               name.starts_with(in_header));
}

// Compares what a sidecar says with parts of the shard.
class Checker {
 public:
  Checker(ShardFile& file, const std::vector<SidecarMember>& members)
      : file_(file), members_(members) {}

  Result<void> check_tar(const std::stop_token& cancel) {
    PENSTOCK_TRY(check_first(cancel));
    PENSTOCK_TRY(check_spots([this](const SidecarMember& member) { return check_header(member); }));
    return check_tar_end();
  }

  Result<void> check_tfrecord() {
    return check_spots([this](const SidecarMember& record) -> Result<void> {
      std::array<std::byte, kRecordFrontBytes> front{};
      PENSTOCK_TRY(file_.read(record.offset, front));
      if (record_length(front) == record.size - kRecordFrameBytes) return {};
      return invalid("it does not agree with the shard");
    });
  }

 private:
  // So that what the two take for a sample's file is the same.
  Result<void> check_first(const std::stop_token& cancel) {
    size_t seen = 0;
    TarParser parser([&](const TarMember& member) -> Result<void> {
      if (is_metadata_name(member.name) || !split_name(member.name)) return {};
      const bool same = seen < members_.size() && members_[seen].name == member.name &&
                        members_[seen].offset == member.offset &&
                        members_[seen].size == member.size;
      ++seen;
      return same ? Result<void>() : invalid("it does not agree with the shard");
    });
    WindowReader reader(file_, cancel);
    while (seen < std::min(kFirstChecked, members_.size())) {
      const auto wanted = parser.wants();
      if (!wanted || wanted->end() > reader.size()) return invalid("the shard has fewer files");
      const auto bytes = PENSTOCK_TRY(reader.at(wanted->offset, wanted->length));
      PENSTOCK_TRY(parser.take(bytes));
    }
    return {};
  }

  Result<void> check_header(const SidecarMember& member) {
    std::array<std::byte, kTarBlockBytes> block{};
    PENSTOCK_TRY(file_.read(member.offset - block.size(), block));
    const std::optional<PlainTarHeader> header = read_plain_tar_header(block);
    const bool same =
        header && header->size == member.size && names_agree(member.name, header->name);
    return same ? Result<void>() : invalid("it does not agree with the shard");
  }

  Result<void> check_spots(const std::function<Result<void>(const SidecarMember&)>& check) {
    const size_t spots = std::min(kSpotsChecked, members_.size());
    for (size_t i = 0; i < spots; ++i) {
      PENSTOCK_TRY(check(members_[spots == 1 ? 0 : i * (members_.size() - 1) / (spots - 1)]));
    }
    return {};
  }

  // Nothing may follow the last file.
  Result<void> check_tar_end() {
    const uint64_t end =
        members_.empty() ? 0 : whole_blocks(members_.back().offset + members_.back().size);
    if (end == file_.size()) return {};
    std::array<std::byte, kTarBlockBytes> block{};
    if (end > file_.size() || file_.size() - end < block.size()) return invalid("no end of a tar");
    PENSTOCK_TRY(file_.read(end, block));
    const bool zero = std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; });
    return zero ? Result<void>() : invalid("the shard goes on behind its end");
  }

  ShardFile& file_;
  const std::vector<SidecarMember>& members_;
};

Result<Block> use_sidecar(const Source& source, const std::string& key,
                          const store::ObjectInfo& object, Format format, ShardFile& file,
                          const std::stop_token& cancel) {
  store::GetOptions options;
  options.cancel = cancel;
  // One that is larger than its shard says nothing of use.
  const uint64_t limit = std::min(object.size, kSidecarBytesMax);
  const std::vector<std::byte> bytes =
      PENSTOCK_TRY(store::read_object(*source.store, key, limit, options));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool tar = format == Format::kTar;
  const std::vector<SidecarMember> members =
      PENSTOCK_TRY(tar ? parse_wds2idx(text, object.size) : parse_tfrecord2idx(text, object.size));
  Checker checker(file, members);
  PENSTOCK_TRY(tar ? checker.check_tar(cancel) : checker.check_tfrecord());
  IndexBuilder builder;
  for (const SidecarMember& member : members) {
    PENSTOCK_TRY(tar ? builder.add_named(member.name, member.offset, member.size)
                     : builder.add_record(member.offset, member.size));
  }
  return builder.finish();
}

}  // namespace

std::optional<Block> index_from_sidecar(const Source& source, const store::ObjectInfo& object,
                                        Format format, ShardFile& file,
                                        const std::stop_token& cancel) {
  for (const std::string& key : sidecar_keys(object.key, format)) {
    store::CallOptions options;
    options.cancel = cancel;
    const Result<store::ObjectInfo> sidecar = source.store->head(key, options);
    if (!sidecar.ok()) continue;
    const auto ignore = [&](std::string_view why) {
      log_info("an index beside a shard is not used",
               {{"index", source.name_of(key)}, {"reason", why}});
    };
    if (sidecar->mtime_ns < object.mtime_ns) {
      ignore("it is older than the shard");
      continue;
    }
    Result<Block> block = use_sidecar(source, key, object, format, file, cancel);
    if (block.ok()) return std::move(*block);
    ignore(block.error().detail);
  }
  return std::nullopt;
}

}  // namespace penstock::data
