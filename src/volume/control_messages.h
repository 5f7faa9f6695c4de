// What is asked over the control socket, and answered: the bodies of frames.
//
// Each message lists its fields once, in the order in which they travel, for both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "penstock/store.h"
#include "penstock/volume.h"
#include "volume/admin.h"
#include "volume/control_format.h"
#include "volume/control_mount.h"
#include "volume/record_bytes.h"

namespace penstock::volume::control {

// Those of kOpenStore.
struct OpenStoreRequest {
  std::string volume = {};  // Empty: the one that the host was made for.
  std::string folder = {};
  std::string name = {};  // For people, as in "pen://NAME".
  bool read_only = false;
};
struct OpenStoreAnswer {
  std::string identity = {};
  std::string description = {};
  bool writable = false;
  bool shared = false;
};

inline constexpr int64_t kNoTimeout = -1;

struct GetRequest {
  std::string key = {};
  uint64_t offset = 0;
  uint32_t length = 0;  // Up to kPayloadBytesMax. The payload of the answer is what was read.
  std::string if_match = {};
  bool bypass_cache = false;
  int64_t timeout_ns = kNoTimeout;
};
struct KeyRequest {  // kHead
  std::string key = {};
  int64_t timeout_ns = kNoTimeout;
};
struct ListRequest {
  std::string prefix = {};
  bool by_folder = false;
  std::string start_after = {};
  uint32_t limit = 0;
  int64_t timeout_ns = kNoTimeout;
};
struct RemoveRequest {
  std::vector<std::string> keys = {};
  int64_t timeout_ns = kNoTimeout;
};
struct CopyRequest {
  std::string from = {};
  std::string to = {};
  int64_t timeout_ns = kNoTimeout;
};
struct TimeoutRequest {  // kFlush, kDrain
  int64_t timeout_ns = kNoTimeout;
};
struct PutRequest {
  std::string key = {};
  bool if_absent = false;
  std::optional<int64_t> mtime_ns = {};
  std::optional<uint32_t> mode = {};
  std::optional<uint64_t> size = {};
  int64_t timeout_ns = kNoTimeout;
};
struct Nothing {};  // kPutData, kPutEnd, kVolumes, kCommit, and many answers.

struct VolumeRequest {  // kStatus, kMetrics
  std::string volume = {};
};
struct SettingsRequest {
  std::string volume = {};
  meta::Settings settings = {};
};
struct SnapshotRequest {  // kMakeSnapshot, kRemoveSnapshot, kClone
  std::string volume = {};
  std::string name = {};
  std::optional<meta::Time> at = {};
};
struct GcRequest {
  bool dry_run = false;
  uint64_t compact_below_ppm = 0;  // Millionths.
};
struct FsckRequest {
  bool read_content = true;
  bool repair = false;
};
struct FsckAnswer {
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> repaired = {};
};
struct FsckProgress {
  uint64_t files = 0;
  uint64_t bytes = 0;
};

template <typename Archive>
void fields(Archive& a, OpenStoreRequest& m) {
  a(m.volume, m.folder, m.name, m.read_only);
}
template <typename Archive>
void fields(Archive& a, OpenStoreAnswer& m) {
  a(m.identity, m.description, m.writable, m.shared);
}
template <typename Archive>
void fields(Archive& a, GetRequest& m) {
  a(m.key, m.offset, m.length, m.if_match, m.bypass_cache, m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, KeyRequest& m) {
  a(m.key, m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, ListRequest& m) {
  a(m.prefix, m.by_folder, m.start_after, m.limit, m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, RemoveRequest& m) {
  a(m.keys, m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, CopyRequest& m) {
  a(m.from, m.to, m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, TimeoutRequest& m) {
  a(m.timeout_ns);
}
template <typename Archive>
void fields(Archive& a, PutRequest& m) {
  a(m.key, m.if_absent, m.mtime_ns, m.mode, m.size, m.timeout_ns);
}
template <typename Archive>
void fields(Archive&, Nothing&) {}
template <typename Archive>
void fields(Archive& a, VolumeRequest& m) {
  a(m.volume);
}
template <typename Archive>
void fields(Archive& a, meta::Quota& m) {
  a(m.bytes, m.inodes);
}
template <typename Archive>
void fields(Archive& a, codec::CodecSpec& m) {
  a(m.codec, m.level);
}
template <typename Archive>
void fields(Archive& a, meta::Settings& m) {
  a(m.uuid, m.name, m.block_bytes, m.codec, m.retention, m.store, m.quota);
}
template <typename Archive>
void fields(Archive& a, SettingsRequest& m) {
  a(m.volume, m.settings);
}
template <typename Archive>
void fields(Archive& a, SnapshotRequest& m) {
  a(m.volume, m.name, m.at);
}
template <typename Archive>
void fields(Archive& a, GcRequest& m) {
  a(m.dry_run, m.compact_below_ppm);
}
template <typename Archive>
void fields(Archive& a, FsckRequest& m) {
  a(m.read_content, m.repair);
}
template <typename Archive>
void fields(Archive& a, FsckAnswer& m) {
  a(m.files, m.bytes, m.repaired);
}
template <typename Archive>
void fields(Archive& a, FsckProgress& m) {
  a(m.files, m.bytes);
}
template <typename Archive>
void fields(Archive& a, Error& m) {
  a(m.code, m.retryable, m.os_errno, m.detail);
}
template <typename Archive>
void fields(Archive& a, store::ObjectInfo& m) {
  a(m.key, m.size, m.etag, m.mtime_ns, m.kept_mtime_ns, m.kept_mode);
}
template <typename Archive>
void fields(Archive& a, store::ListPage& m) {
  a(m.objects, m.folders, m.odd, m.next);
}
template <typename Archive>
void fields(Archive& a, store::RemoveFailure& m) {
  a(m.key, m.error);
}
template <typename Archive>
void fields(Archive& a, Pending& m) {
  a(m.journal_bytes, m.content_bytes, m.oldest);
}
template <typename Archive>
void fields(Archive& a, HostStatus& m) {
  a(m.pending, m.version, m.memory_bytes, m.stored_bytes, m.live_bytes, m.objects);
}
template <typename Archive>
void fields(Archive& a, meta::Totals& m) {
  a(m.bytes, m.inodes);
}
template <typename Archive>
void fields(Archive& a, meta::Snapshot& m) {
  a(m.name, m.version, m.time);
}
template <typename Archive>
void fields(Archive& a, VolumeStatus& m) {
  a(m.settings, m.totals, m.host, m.snapshots, m.owner_pid, m.mounted_at);
}
template <typename Archive>
void fields(Archive& a, GcReport& m) {
  a(m.rows, m.compacted, m.moved_bytes, m.deleted, m.orphans, m.freed_bytes);
}
template <typename Archive>
void fields(Archive& a, Finding& m) {
  a(m.volume, m.path, m.what);
}

// Writes one field after the other.
class BodyWriter {
 public:
  template <typename... Fields>
  void operator()(Fields&... all) {
    (one(all), ...);
  }
  std::vector<std::byte> take() { return writer_.take(); }

 private:
  void one(std::string& text) { writer_.text(text); }
  void one(std::array<std::byte, 16>& bytes) { writer_.raw(bytes); }
  void one(Nanoseconds& time) { writer_.number(int64_t{time.count()}); }
  template <typename T>
  void one(std::optional<T>& value) {
    writer_.number(static_cast<uint8_t>(value.has_value()));
    if (value) one(*value);
  }
  template <typename T>
  void one(std::vector<T>& values) {
    writer_.number(static_cast<uint32_t>(values.size()));
    for (T& value : values) one(value);
  }
  template <typename T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      writer_.number(static_cast<uint8_t>(value));
    } else if constexpr (std::is_enum_v<T>) {
      writer_.number(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_integral_v<T>) {
      writer_.number(value);
    } else {
      fields(*this, value);
    }
  }

  RecordWriter writer_;
};

// The same, the other way. What cannot be makes it bad.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : reader_(body) {}
  template <typename... Fields>
  void operator()(Fields&... all) {
    (one(all), ...);
  }
  bool finished() const { return reader_.finished(); }

 private:
  void one(std::string& text) { text = reader_.text(); }
  void one(std::array<std::byte, 16>& bytes) { reader_.raw(bytes); }
  void one(Nanoseconds& time) { time = Nanoseconds(reader_.number<int64_t>()); }
  void one(bool& value) {
    const auto number = reader_.number<uint8_t>();
    if (number > 1) reader_.set_bad();
    value = number == 1;
  }
  void one(ErrorCode& code) { code = limited(ErrorCode::kClosed); }
  void one(codec::Codec& codec) { codec = limited(codec::Codec::kZstd); }
  template <typename T>
  void one(std::optional<T>& value) {
    bool there = false;
    one(there);
    value.reset();
    if (there) one(value.emplace());
  }
  template <typename T>
  void one(std::vector<T>& values) {
    // Each takes a byte at least, so a count that is not true ends with the bytes.
    const auto count = reader_.number<uint32_t>();
    values.clear();
    for (uint32_t i = 0; i < count && !reader_.bad(); ++i) one(values.emplace_back());
  }
  template <typename T>
  void one(T& value) {
    if constexpr (std::is_integral_v<T>) {
      value = reader_.number<T>();
    } else {
      fields(*this, value);
    }
  }
  template <typename Enum>
  Enum limited(Enum last) {
    const auto number = reader_.number<std::underlying_type_t<Enum>>();
    if (number > static_cast<std::underlying_type_t<Enum>>(last)) reader_.set_bad();
    return static_cast<Enum>(number);
  }

  RecordReader reader_;
};

template <typename Message>
std::vector<std::byte> encode(Message message) {
  BodyWriter writer;
  if constexpr (requires { fields(writer, message); }) {
    fields(writer, message);
  } else {
    writer(message);  // A list, or a number.
  }
  return writer.take();
}

// kCorrupt: the body is none of those, or more than that.
template <typename Message>
Result<Message> decode(std::span<const std::byte> body) {
  Message message{};
  BodyReader reader(body);
  if constexpr (requires { fields(reader, message); }) {
    fields(reader, message);
  } else {
    reader(message);
  }
  if (reader.finished()) return message;
  return make_error(ErrorCode::kCorrupt, "a message of the control socket does not make sense");
}

}  // namespace penstock::volume::control
