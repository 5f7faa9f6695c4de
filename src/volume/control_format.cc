#include "volume/control_format.h"

#include <fmt/core.h>

#include <algorithm>

#include "volume/control_messages.h"

namespace penstock::volume::control {

namespace {

constexpr uint32_t kMagic = 0x4c435350;  // "PSCL"

template <typename Message>
bool is(std::span<const std::byte> body) {
  const Result<Message> message = decode<Message>(body);
  return message.ok() && std::ranges::equal(encode(*message), body);
}

bool is_store_request(Kind kind, std::span<const std::byte> body) {
  switch (kind) {
    case Kind::kOpenStore:
      return is<OpenStoreRequest>(body);
    case Kind::kGet:
      return is<GetRequest>(body);
    case Kind::kHead:
      return is<KeyRequest>(body);
    case Kind::kList:
      return is<ListRequest>(body);
    case Kind::kRemove:
      return is<RemoveRequest>(body);
    case Kind::kCopy:
      return is<CopyRequest>(body);
    case Kind::kFlush:
      return is<TimeoutRequest>(body);
    case Kind::kPut:
      return is<PutRequest>(body);
    case Kind::kPutData:
    case Kind::kPutEnd:
      return is<Nothing>(body);
    default:
      return false;
  }
}

}  // namespace

std::array<std::byte, kHeaderBytes> encode_header(const Header& header) {
  RecordWriter writer;
  writer.number(kMagic);
  writer.number(kVersion);
  writer.number(static_cast<uint16_t>(header.kind));
  writer.number(header.request);
  writer.number(header.body_bytes);
  writer.number(header.payload_bytes);
  std::array<std::byte, kHeaderBytes> bytes{};
  std::ranges::copy(writer.take(), bytes.begin());
  return bytes;
}

Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  RecordReader reader(bytes);
  if (reader.number<uint32_t>() != kMagic) {
    return make_error(ErrorCode::kCorrupt, "what came over the control socket is no message");
  }
  const auto version = reader.number<uint16_t>();
  if (version != kVersion) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the process that has the volume is of another version of "
                                  "Penstock (it speaks version {} of the control socket, this one "
                                  "{}); unmount the volume, and mount it with this version",
                                  version, kVersion));
  }
  Header header;
  header.kind = static_cast<Kind>(reader.number<uint16_t>());
  header.request = reader.number<uint64_t>();
  header.body_bytes = reader.number<uint32_t>();
  header.payload_bytes = reader.number<uint32_t>();
  if (header.body_bytes > kBodyBytesMax || header.payload_bytes > kPayloadBytesMax) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("a message of {} and {} bytes came over the control socket: "
                                  "that is too large",
                                  header.body_bytes, header.payload_bytes));
  }
  return header;
}

std::vector<std::byte> encode_error(const Error& error) {
  return encode(error);
}

Error decode_error(std::span<const std::byte> body) {
  Error error;
  BodyReader reader(body);
  fields(reader, error);
  if (reader.finished()) return error;
  return make_error(ErrorCode::kCorrupt, "an error that came over the control socket is none");
}

bool is_request_body(Kind kind, std::span<const std::byte> body) {
  switch (kind) {
    case Kind::kVolumes:
    case Kind::kCommit:
      return is<Nothing>(body);
    case Kind::kStatus:
    case Kind::kMetrics:
      return is<VolumeRequest>(body);
    case Kind::kSetSettings:
      return is<SettingsRequest>(body);
    case Kind::kMakeSnapshot:
    case Kind::kRemoveSnapshot:
    case Kind::kClone:
      return is<SnapshotRequest>(body);
    case Kind::kGc:
      return is<GcRequest>(body);
    case Kind::kFsck:
      return is<FsckRequest>(body);
    case Kind::kDrain:
      return is<TimeoutRequest>(body);
    case Kind::kMount:
      return is<MountRequest>(body);
    default:
      return is_store_request(kind, body);
  }
}

}  // namespace penstock::volume::control
