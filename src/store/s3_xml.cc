#include "store/s3_xml.h"

#include <fmt/core.h>

#include <charconv>
#include <ctime>
#include <pugixml.hpp>

namespace penstock::store {

namespace {

Error unexpected(std::string_view what) {
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("the server's answer is not {} (is the endpoint right? $AWS_ENDPOINT_URL)", what),
      true);
}

// The root element, by its name without a namespace prefix.
pugi::xml_node root_named(const pugi::xml_document& document, std::string_view name) {
  const pugi::xml_node root = document.document_element();
  return name == root.name() ? root : pugi::xml_node();
}

// A text of nothing but blanks is kept: a key may be one.
bool load(pugi::xml_document& document, std::string_view xml) {
  constexpr unsigned int kOptions = pugi::parse_default | pugi::parse_ws_pcdata_single;
  return static_cast<bool>(
      document.load_buffer(xml.data(), xml.size(), kOptions, pugi::encoding_utf8));
}

std::string text_of(const pugi::xml_node& node, const char* child) {
  return node.child(child).text().get();
}

S3ErrorText error_in(const pugi::xml_node& node) {
  return {text_of(node, "Code"), text_of(node, "Message"), text_of(node, "Region")};
}

Result<ObjectInfo> listed_object(const pugi::xml_node& node) {
  ObjectInfo object;
  object.key = decode_listed_key(text_of(node, "Key"));
  const std::string size = text_of(node, "Size");
  const auto parsed = std::from_chars(size.data(), size.data() + size.size(), object.size);
  if (parsed.ec != std::errc{} || parsed.ptr != size.data() + size.size()) {
    return unexpected("a listing: an object has no size");
  }
  object.etag = without_quotes(text_of(node, "ETag"));
  object.mtime_ns = parse_iso_time_ns(text_of(node, "LastModified"));
  return object;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\t':
      case '\n':
      case '\r':  // A parser would turn a bare one into a line feed.
        out += fmt::format("&#{};", static_cast<int>(c));
        break;
      default:
        out += c;
    }
  }
}

// The code point at the front of `text` and its length; length 0 when it is not UTF-8.
struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;
};
CodePoint code_point(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  uint32_t value = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return value < kLeast[length] ? CodePoint{} : CodePoint{value, length};
}

}  // namespace

Result<S3Listing> parse_listing(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return unexpected("XML");
  const pugi::xml_node root = root_named(document, "ListBucketResult");
  if (!root) return unexpected("a listing");
  S3Listing listing;
  for (const pugi::xml_node node : root.children("Contents")) {
    listing.objects.push_back(PENSTOCK_TRY(listed_object(node)));
  }
  for (const pugi::xml_node node : root.children("CommonPrefixes")) {
    listing.folders.push_back(decode_listed_key(text_of(node, "Prefix")));
  }
  listing.truncated = text_of(root, "IsTruncated") == "true";
  listing.continuation = text_of(root, "NextContinuationToken");
  return listing;
}

std::optional<S3ErrorText> parse_error(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return std::nullopt;
  const pugi::xml_node root = root_named(document, "Error");
  if (!root) return std::nullopt;
  return error_in(root);
}

Result<std::vector<S3DeleteError>> parse_delete_result(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return unexpected("XML");
  const pugi::xml_node root = root_named(document, "DeleteResult");
  if (!root) return unexpected("the result of a removal");
  std::vector<S3DeleteError> errors;
  for (const pugi::xml_node node : root.children("Error")) {
    errors.push_back({text_of(node, "Key"), error_in(node)});
  }
  return errors;
}

Result<std::string> parse_upload_id(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return unexpected("XML");
  std::string id = text_of(root_named(document, "InitiateMultipartUploadResult"), "UploadId");
  if (id.empty()) return unexpected("the beginning of an upload");
  return id;
}

Result<S3Written> parse_written(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return unexpected("XML");
  for (const char* name : {"CopyObjectResult", "CopyPartResult", "CompleteMultipartUploadResult"}) {
    const pugi::xml_node root = root_named(document, name);
    if (!root) continue;
    return S3Written{without_quotes(text_of(root, "ETag")),
                     parse_iso_time_ns(text_of(root, "LastModified"))};
  }
  return unexpected("the result of a copy or an upload");
}

bool is_xml_text(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = code_point(text);
    const bool is_control = c.value < 0x20 && c.value != '\t' && c.value != '\n' && c.value != '\r';
    const bool is_surrogate = c.value >= 0xD800 && c.value < 0xE000;
    if (c.length == 0 || is_control || is_surrogate || c.value == 0xFFFE || c.value == 0xFFFF ||
        c.value > 0x10FFFF) {
      return false;
    }
    text.remove_prefix(c.length);
  }
  return true;
}

std::string make_delete_request(std::span<const std::string> keys) {
  std::string xml = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    xml += "<Object><Key>";
    append_escaped(xml, key);
    xml += "</Key></Object>";
  }
  return xml + "</Delete>";
}

std::string make_complete_request(std::span<const std::string> etags) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < etags.size(); ++i) {
    xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>\"", i + 1);
    append_escaped(xml, etags[i]);
    xml += "\"</ETag></Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

std::string decode_listed_key(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
        hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string without_quotes(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

int64_t parse_iso_time_ns(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() < kShape.size()) return 0;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !is_digit : text[i] != kShape[i]) return 0;
  }
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    for (size_t i = at; i < at + digits; ++i) value = 10 * value + (text[i] - '0');
    return value;
  };
  struct tm utc {};
  utc.tm_year = number(0, 4) - 1900;
  utc.tm_mon = number(5, 2) - 1;
  utc.tm_mday = number(8, 2);
  utc.tm_hour = number(11, 2);
  utc.tm_min = number(14, 2);
  utc.tm_sec = number(17, 2);
  constexpr time_t kLastSecond = 9'223'372'036;  // Of those that int64 nanoseconds can hold.
  const time_t seconds = timegm(&utc);
  if (seconds < -kLastSecond || seconds >= kLastSecond) return 0;
  int64_t fraction_ns = 0;
  if (text.size() > kShape.size() && text[kShape.size()] == '.') {
    int64_t unit_ns = 100'000'000;
    for (size_t i = kShape.size() + 1; i < text.size() && unit_ns > 0; ++i, unit_ns /= 10) {
      if (text[i] < '0' || text[i] > '9') break;
      fraction_ns += (text[i] - '0') * unit_ns;
    }
  }
  return static_cast<int64_t>(seconds) * 1'000'000'000 + fraction_ns;
}

}  // namespace penstock::store
