#include "checkpoint/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/append_number.h"
#include "base/log.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sha256.h"
#include "penstock/frame.h"

namespace penstock::checkpoint {

namespace {

constexpr std::string_view kFirstLine = "{\"penstock_checkpoint\":1,\"xxh3\":\"";
constexpr std::string_view kFirstLineEnd = "\",\n";
constexpr size_t kHashDigits = 16;

uint64_t hash_of(std::string_view text) {
  return codec::hash_bytes(std::as_bytes(std::span(text)));
}

Error damaged(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("manifest: {}", what));
}

constexpr size_t kTensorTextBytes = 192;  // About.

void append_tensor(std::string& text, const TensorInfo& tensor) {
  text += "{\"name\":\"";
  append_json_escaped(text, tensor.name);
  text.append("\",\"dtype\":\"").append(tensor.dtype).append("\",\"shape\":[");
  append_numbers(text, tensor.shape);
  text += "],\"offset\":";
  append_number(text, tensor.offset);
  text += ",\"bytes\":";
  append_number(text, tensor.bytes);
  text += ",\"xxh3\":\"";
  append_hex(text, tensor.hash);
  text += "\"}";
}

void append_file(std::string& text, const ManifestFile& file) {
  fmt::format_to(std::back_inserter(text),
                 "{{\"name\":\"{}\",\"rank\":{},\"bytes\":{},\"data_start\":{},"
                 "\"header_xxh3\":\"{:016x}\",",
                 json_escape(file.name), file.rank, file.bytes, file.data_start, file.header_hash);
  if (!file.sha256.empty()) text += fmt::format("\"sha256\":\"{}\",", json_escape(file.sha256));
  text += "\"tensors\":[\n";
  text.reserve(text.size() + kTensorTextBytes * file.tensors.size());
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    if (i > 0) text += ",\n";
    append_tensor(text, file.tensors[i]);
  }
  text += "]}";
}

Result<uint64_t> parse_hash(std::string_view digits) {
  uint64_t hash = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, hash, 16);
  // One way to write each: capital letters would be a flipped bit that passes.
  if (error != std::errc() || at != end || fmt::format("{:016x}", hash) != digits) {
    return damaged("no checksum");
  }
  return hash;
}

// Reads members of an object; the first that is missing or of another kind is remembered.
class Members {
 public:
  Members(const nlohmann::json& object, std::string_view what) : object_(object), what_(what) {}

  uint64_t number(const char* name) {
    const nlohmann::json* value = find(name);
    return value != nullptr && check(value->is_number_unsigned(), name) ? value->get<uint64_t>()
                                                                        : 0;
  }
  std::string text(const char* name) {
    const nlohmann::json* value = find(name);
    return value != nullptr && check(value->is_string(), name) ? value->get<std::string>() : "";
  }
  uint64_t hash(const char* name) {
    const Result<uint64_t> hash = parse_hash(text(name));
    return check(hash.ok(), name) ? *hash : 0;
  }
  std::string optional_text(const char* name) {
    return object_.is_object() && object_.contains(name) ? text(name) : "";
  }
  const nlohmann::json& list(const char* name) {
    static const nlohmann::json kEmpty = nlohmann::json::array();
    const nlohmann::json* value = find(name);
    return value != nullptr && check(value->is_array(), name) ? *value : kEmpty;
  }
  Result<void> result() const {
    if (missing_.empty()) return {};
    return damaged(fmt::format("{} has no right '{}'", what_, missing_));
  }

 private:
  const nlohmann::json* find(const char* name) {
    const auto at = object_.is_object() ? object_.find(name) : object_.end();
    return check(object_.is_object() && at != object_.end(), name) ? &*at : nullptr;
  }
  bool check(bool right, const char* name) {
    if (!right && missing_.empty()) missing_ = name;
    return right;
  }

  const nlohmann::json& object_;
  std::string_view what_;
  std::string missing_;
};

Result<TensorInfo> parse_tensor(const nlohmann::json& object, const ManifestFile& file) {
  Members members(object, "a tensor");
  TensorInfo tensor;
  tensor.name = members.text("name");
  tensor.dtype = members.text("dtype");
  for (const nlohmann::json& side : members.list("shape")) {
    if (!side.is_number_unsigned()) return damaged("a shape is none");
    tensor.shape.push_back(side.get<uint64_t>());
  }
  tensor.bytes = members.number("bytes");
  tensor.offset = members.number("offset");
  tensor.hash = members.hash("xxh3");
  tensor.file = file.name;
  tensor.rank = file.rank;
  PENSTOCK_TRY(members.result());
  const Result<uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes.ok() || *bytes != tensor.bytes || tensor.offset > file.bytes ||
      tensor.bytes > file.bytes - tensor.offset) {
    return damaged(fmt::format("tensor '{}' does not fit", tensor.name));
  }
  return tensor;
}

Result<ManifestFile> parse_file(const nlohmann::json& object) {
  Members members(object, "a file");
  ManifestFile file{.name = members.text("name"),
                    .bytes = members.number("bytes"),
                    .data_start = members.number("data_start"),
                    .header_hash = members.hash("header_xxh3"),
                    .rank = static_cast<uint32_t>(members.number("rank")),
                    .sha256 = members.optional_text("sha256"),
                    .tensors = {}};
  const nlohmann::json& tensors = members.list("tensors");
  PENSTOCK_TRY(members.result());
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos ||
      file.name.find('\0') != std::string::npos) {
    return damaged("a file has a name that is none");
  }
  uint64_t end = file.data_start;
  for (const nlohmann::json& tensor : tensors) {
    file.tensors.push_back(PENSTOCK_TRY(parse_tensor(tensor, file)));
    if (file.tensors.back().offset != end) return damaged("tensors leave a gap, or overlap");
    end += file.tensors.back().bytes;
  }
  if (end != file.bytes) return damaged(fmt::format("{} has another size", file.name));
  return file;
}

Result<Manifest> parse_body(const nlohmann::json& root) {
  Members members(root, "it");
  Manifest manifest{.step = members.number("step"),
                    .saved_ns = static_cast<int64_t>(members.number("saved_ns")),
                    .nonce = members.text("nonce"),
                    .writer = members.text("writer"),
                    .metadata = {},
                    .trees = {},
                    .files = {}};
  const nlohmann::json& files = members.list("files");
  for (const nlohmann::json& tree : members.list("trees")) {
    if (!tree.is_string()) return damaged("a tree is no string");
    manifest.trees.push_back(tree.get<std::string>());
  }
  PENSTOCK_TRY(members.result());
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || !metadata->is_object()) return damaged("no metadata");
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) return damaged("metadata holds more than strings");
    manifest.metadata[key] = value.get<std::string>();
  }
  for (const nlohmann::json& file : files) {
    manifest.files.push_back(PENSTOCK_TRY(parse_file(file)));
  }
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  std::string body;
  auto out = std::back_inserter(body);
  fmt::format_to(out, "\"step\":{},\n\"saved_ns\":{},\n\"nonce\":\"{}\",\n\"writer\":\"{}\",\n",
                 manifest.step, manifest.saved_ns, json_escape(manifest.nonce),
                 json_escape(manifest.writer));
  body += "\"metadata\":{";
  bool first = true;
  for (const auto& [key, value] : manifest.metadata) {
    fmt::format_to(out, "{}\"{}\":\"{}\"", first ? "" : ",", json_escape(key), json_escape(value));
    first = false;
  }
  body += "},\n\"trees\":[";
  for (size_t i = 0; i < manifest.trees.size(); ++i) {
    body += i == 0 ? "\"" : ",\n\"";
    append_json_escaped(body, manifest.trees[i]);
    body += "\"";
  }
  body += "],\n\"files\":[\n";
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    if (i > 0) body += ",\n";
    append_file(body, manifest.files[i]);
  }
  body += "]}\n";
  return fmt::format("{}{:016x}{}{}", kFirstLine, hash_of(body), kFirstLineEnd, body);
}

bool same_content(const ManifestFile& one, const ManifestFile& other) {
  return one.bytes == other.bytes && one.data_start == other.data_start &&
         one.header_hash == other.header_hash &&
         std::ranges::equal(one.tensors, other.tensors, {}, &TensorInfo::hash, &TensorInfo::hash);
}

std::string sha256_sums(const Manifest& manifest, std::string_view text) {
  std::string sums;
  if (manifest.files.empty()) return sums;
  for (const ManifestFile& file : manifest.files) {
    if (file.sha256.empty()) return "";
    sums += fmt::format("{}  {}\n", file.sha256, file.name);
  }
  Sha256 sum;
  sum.update(std::as_bytes(std::span(text)));
  return sums + fmt::format("{}  {}\n", sum.hex(), kManifestName);
}

Result<Manifest> parse_manifest(std::string_view text) {
  constexpr size_t kBodyAt = kFirstLine.size() + kHashDigits + kFirstLineEnd.size();
  constexpr std::string_view kAnyVersion = kFirstLine.substr(0, kFirstLine.find(':') + 1);
  if (!text.starts_with(kFirstLine)) {
    const bool newer = text.starts_with(kAnyVersion) &&
                       text.substr(kAnyVersion.size()).size() > 1 &&
                       text[kAnyVersion.size()] > '1' && text[kAnyVersion.size()] <= '9';
    if (!newer) return damaged("it is none");
    return make_error(ErrorCode::kUnsupported,
                      "manifest: made by a newer version of Penstock, which this one cannot read");
  }
  if (text.size() < kBodyAt || text.substr(kBodyAt - kFirstLineEnd.size(), 3) != kFirstLineEnd) {
    return damaged("it is cut short");
  }
  const uint64_t hash = PENSTOCK_TRY(parse_hash(text.substr(kFirstLine.size(), kHashDigits)));
  if (hash_of(text.substr(kBodyAt)) != hash) return damaged("its checksum does not match");
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object()) return damaged("it is no JSON");
  return parse_body(root);
}

}  // namespace penstock::checkpoint
