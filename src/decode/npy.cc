// The format is that of numpy.lib.format: a magic, a version, and a Python dictionary of three
// entries as text, padded with spaces; then the data.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kDimensionsMax = 64;

Error corrupt_npy(std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("npy: {}", what));
}

// Reads the dictionary: only the Python that numpy writes into it.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : left_(text) {}

  // Whether `token` comes next, after spaces; then it is behind us.
  bool accept(std::string_view token) {
    left_.remove_prefix(std::min(left_.find_first_not_of(" \n\t"), left_.size()));
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }
  Result<void> expect(std::string_view token) {
    if (!accept(token)) return corrupt_npy(fmt::format("expected {} in the header", token));
    return {};
  }
  Result<std::string_view> quoted() {
    const bool single = accept("'");
    if (!single) PENSTOCK_TRY(expect("\""));
    const size_t end = left_.find(single ? '\'' : '"');
    if (end == std::string_view::npos) return corrupt_npy("a text in the header does not end");
    const std::string_view text = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return text;
  }
  Result<uint64_t> number() {
    accept("");
    const size_t digits = std::min(left_.find_first_not_of("0123456789"), left_.size());
    const Result<int64_t> value = parse_int(left_.substr(0, digits));
    if (!value) return corrupt_npy("a dimension is not a number");
    left_.remove_prefix(digits);
    accept("L");  // Python 2 wrote long integers so.
    return static_cast<uint64_t>(*value);
  }
  Result<std::vector<uint64_t>> shape() {
    std::vector<uint64_t> shape;
    PENSTOCK_TRY(expect("("));
    while (!accept(")")) {
      if (shape.size() == kDimensionsMax) return corrupt_npy("too many dimensions");
      shape.push_back(PENSTOCK_TRY(number()));
      if (!accept(",")) {
        PENSTOCK_TRY(expect(")"));
        break;
      }
    }
    return shape;
  }

 private:
  std::string_view left_;
};

struct Kind {
  std::string_view text;
  DType type;
};
constexpr std::array kKinds = {
    Kind{"b1", DType::kBool},    Kind{"u1", DType::kUint8},   Kind{"i1", DType::kInt8},
    Kind{"i2", DType::kInt16},   Kind{"u2", DType::kUint16},  Kind{"i4", DType::kInt32},
    Kind{"u4", DType::kUint32},  Kind{"i8", DType::kInt64},   Kind{"u8", DType::kUint64},
    Kind{"f2", DType::kFloat16}, Kind{"f4", DType::kFloat32}, Kind{"f8", DType::kFloat64},
};

Result<DType> parse_descr(std::string_view descr) {
  const char order = descr.empty() ? ' ' : descr[0];
  for (const Kind& kind : kKinds) {
    if (descr.empty() || descr.substr(1) != kind.text) continue;
    if (order == '<' || order == '=' || (order == '|' && dtype_bytes(kind.type) == 1)) {
      return kind.type;
    }
  }
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("npy: arrays of \"{}\" are not read; numbers and bools in little-endian order "
                  "are: save array.astype(...)",
                  descr));
}

struct Header {
  std::string_view descr;
  bool fortran = false;
  std::vector<uint64_t> shape;
  int entries = 0;
};

Result<void> parse_entry(HeaderText& text, Header& header) {
  const std::string_view key = PENSTOCK_TRY(text.quoted());
  PENSTOCK_TRY(text.expect(":"));
  ++header.entries;
  if (key == "descr") {
    if (text.accept("[") || text.accept("(")) {
      return make_error(ErrorCode::kUnsupported,
                        "npy: an array of records; save one array for each field");
    }
    header.descr = PENSTOCK_TRY(text.quoted());
    return {};
  }
  if (key == "fortran_order") {
    header.fortran = text.accept("True");
    return header.fortran ? Result<void>{} : text.expect("False");
  }
  if (key != "shape") return corrupt_npy("an unknown entry in the header");
  header.shape = PENSTOCK_TRY(text.shape());
  return {};
}

Result<Header> parse_header(std::string_view bytes) {
  HeaderText text(bytes);
  Header header;
  PENSTOCK_TRY(text.expect("{"));
  while (!text.accept("}")) {
    PENSTOCK_TRY(parse_entry(text, header));
    if (!text.accept(",")) {
      PENSTOCK_TRY(text.expect("}"));
      break;
    }
  }
  if (header.entries != 3) return corrupt_npy("the header lacks entries, or has one twice");
  return header;
}

// How many bytes an array of this shape has; what does not fit 64 bits is no array.
Result<uint64_t> data_bytes(const std::vector<uint64_t>& shape, DType type) {
  uint64_t bytes = dtype_bytes(type);
  bool empty = false;
  for (const uint64_t dimension : shape) empty = empty || dimension == 0;
  if (empty) return uint64_t{0};
  for (const uint64_t dimension : shape) {
    if (bytes > std::numeric_limits<uint64_t>::max() / dimension)
      return corrupt_npy("it is too large");
    bytes *= dimension;
  }
  return bytes;
}

// Where the header's text is.
Result<std::string_view> header_text(std::string_view all) {
  if (!all.starts_with(kMagic)) return corrupt_npy("it does not begin with NUMPY's magic");
  const size_t length_at = kMagic.size() + 2;
  if (all.size() < length_at + 4) return corrupt_npy("it ends in the header");
  const int version = static_cast<unsigned char>(all[kMagic.size()]);
  if (version < 1 || version > 3) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("npy: version {}; 1 to 3 are read", version));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= size_t{static_cast<unsigned char>(all[length_at + i])} << (8 * i);
  }
  const size_t begin = length_at + length_bytes;
  if (length > all.size() - begin) return corrupt_npy("it ends in the header");
  return all.substr(begin, length);
}

}  // namespace

Result<NpyView> parse_npy(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view text = PENSTOCK_TRY(header_text(all));
  Header header = PENSTOCK_TRY(parse_header(text));
  NpyView view;
  view.dtype = PENSTOCK_TRY(parse_descr(header.descr));
  if (header.fortran && header.shape.size() > 1) {
    return make_error(ErrorCode::kUnsupported,
                      "npy: Fortran order; save numpy.ascontiguousarray(array)");
  }
  const uint64_t size = PENSTOCK_TRY(data_bytes(header.shape, view.dtype));
  const auto data = bytes.subspan(static_cast<size_t>(text.data() + text.size() - all.data()));
  if (size > data.size()) return corrupt_npy("it ends before its data does");
  view.shape = std::move(header.shape);
  view.data = data.first(size);
  return view;
}

}  // namespace penstock::decode
