#include "store/object_file.h"

#include <fmt/core.h>

#include <bit>
#include <cstddef>
#include <vector>

#include "penstock/frame.h"

namespace penstock::store {

namespace {

constexpr size_t kNameBytesMax = 200;  // Any file system takes names this long, with the '~'.
constexpr char kContinued = '~';
constexpr std::array<char, 8> kMagic = {'P', 'N', 'S', 'T', 'O', 'B', 'J', '1'};
static_assert(std::endian::native == std::endian::little, "the trailer is written as it lies");

struct Trailer {
  std::array<char, 8> magic;
  uint64_t size;
  VersionId version;
  uint64_t flags;  // None defined; others are refused.
  uint64_t checksum;
};
static_assert(sizeof(Trailer) == kTrailerBytes);

uint64_t hash_text(std::string_view text) {
  return codec::hash_bytes(std::as_bytes(std::span(text)));
}

uint64_t trailer_checksum(const Trailer& trailer, std::string_view key) {
  const std::span bytes = std::as_bytes(std::span(&trailer, 1));
  return codec::hash_bytes(bytes.first(offsetof(Trailer, checksum)), hash_text(key));
}

bool is_plain(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

int upper_hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string key;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      key.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = upper_hex_value(text[i + 1]);
    const int low = upper_hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    key.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return key;
}

std::string hex(const VersionId& version) {
  return fmt::format("{:016x}{:016x}", version[0], version[1]);
}

Error corrupt(const std::string& path, const std::string& key) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{} does not hold object '{}', whole", path, key));
}

}  // namespace

std::string key_to_path(std::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (is_plain(c)) {
      escaped.push_back(c);
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  std::string path;
  std::string_view rest = escaped;
  while (rest.size() > kNameBytesMax) {
    path += rest.substr(0, kNameBytesMax);
    path += kContinued;
    path += '/';
    rest.remove_prefix(kNameBytesMax);
  }
  return path += rest;
}

std::optional<std::string> path_to_key(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    if (c != kContinued && c != '/') escaped.push_back(c);
  }
  std::optional<std::string> key = unescape(escaped);
  if (!key || !check_key(*key).ok() || key_to_path(*key) != path) return std::nullopt;
  return key;
}

std::string fan_out(std::string_view key) {
  return fmt::format("{:02x}", hash_text(key) & 0xff);
}

Result<bool> for_each_object_path(io::FileSystem& fs, const std::string& directory,
                                  const std::function<bool(const std::string&)>& visit) {
  std::vector<std::string> continued;
  bool go_on = true;
  const Result<void> listed = fs.list(directory, [&](const io::DirectoryEntry& entry) {
    if (entry.name.back() == kContinued) {
      continued.push_back(entry.name);
    } else {
      go_on = visit(entry.name);
    }
    return go_on;
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed.error();
  for (const std::string& name : continued) {
    if (!go_on) break;
    go_on = PENSTOCK_TRY(
        for_each_object_path(fs, directory + "/" + name,
                             [&](const std::string& below) { return visit(name + "/" + below); }));
  }
  return go_on;
}

Result<ObjectInfo> seal_object(TemporaryFile& file, const std::string& key,
                               const VersionId& version) {
  const uint64_t size = file.size();
  Trailer trailer{kMagic, size, version, 0, 0};
  trailer.checksum = trailer_checksum(trailer, key);
  PENSTOCK_TRY(file.write(std::as_bytes(std::span(&trailer, 1)), {}));
  const io::FileInfo info = PENSTOCK_TRY(file.file().stat());
  PENSTOCK_TRY(file.file().close());
  return ObjectInfo{key, size, hex(version), info.mtime_ns};
}

Result<OpenObject> open_object(io::FileSystem& fs, const std::string& path,
                               const std::string& key) {
  std::unique_ptr<io::File> file = PENSTOCK_TRY(fs.open(path, {}));
  const io::FileInfo info = PENSTOCK_TRY(file->stat());
  if (info.size < kTrailerBytes) return corrupt(path, key);
  Trailer trailer;
  const uint64_t size = info.size - kTrailerBytes;
  const size_t read =
      PENSTOCK_TRY(file->read(size, std::as_writable_bytes(std::span(&trailer, 1))));
  if (read != kTrailerBytes || trailer.magic != kMagic || trailer.size != size ||
      trailer.checksum != trailer_checksum(trailer, key)) {
    return corrupt(path, key);
  }
  if (trailer.flags != 0) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} was written by a newer version of Penstock", path));
  }
  return OpenObject{std::move(file), {key, size, hex(trailer.version), info.mtime_ns}};
}

}  // namespace penstock::store
