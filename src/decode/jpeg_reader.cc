#include "decode/jpeg_reader.h"

#include <fmt/format.h>
#include <jerror.h>
#if __has_include(<jpegint.h>)
#include <jpegint.h>
#define PENSTOCK_OWN_HUFFMAN 1
#endif

#include <algorithm>

#include "decode/colour.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

// More passes over an image than any encoder makes; each costs time that few bytes can ask for.
constexpr int kScansMax = 100;

// What libjpeg warns of though every pixel is there. All else means that some are made up.
bool is_harmless(int message) {
  return message == JWRN_EXTRANEOUS_DATA || message == JWRN_JFIF_MAJOR ||
         message == JWRN_ADOBE_XFORM || message == JWRN_NOT_SEQUENTIAL;
}

ErrorCode code_of(int message) {
  switch (message) {
    case JERR_OUT_OF_MEMORY:
      return ErrorCode::kNoMemory;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kCorrupt;
  }
}

void nothing(j_decompress_ptr) {}

}  // namespace

// Runs `call`, out of which the library may jump: then the answer is false.
template <typename Call>
bool JpegReader::attempt(Call call) {
  if (setjmp(jump_) != 0) return false;
  call();
  return true;
}

void JpegReader::on_error(j_common_ptr info) {
  std::longjmp(static_cast<JpegReader*>(info->client_data)->jump_, 1);
}

void JpegReader::on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) on_error(info);
}

void JpegReader::on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kScansMax) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  on_error(info);
}

boolean JpegReader::on_mcu(j_decompress_ptr info, JBLOCKROW* blocks) {
  static_cast<JpegReader*>(info->client_data)->huffman_.decode(*info, blocks);
  return TRUE;
}

// An end marker in place of the bytes that are not there: all that some files lack. Where the
// library needs more than that, it warns.
boolean JpegReader::on_end(j_decompress_ptr info) {
  static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
  static_cast<JpegReader*>(info->client_data)->ended_ = true;
  info->src->next_input_byte = kEnd;
  info->src->bytes_in_buffer = sizeof kEnd;
  return TRUE;
}

void JpegReader::on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) {
    on_end(info);
    return;
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

JpegReader::JpegReader() {
  info_.err = jpeg_std_error(&errors_);
  info_.client_data = this;
  errors_.error_exit = on_error;
  errors_.emit_message = on_message;
  // Fails only without memory; open() then fails too.
  static_cast<void>(attempt([this] { jpeg_create_decompress(&info_); }));
  source_.init_source = nothing;
  source_.term_source = nothing;
  source_.fill_input_buffer = on_end;
  source_.skip_input_data = on_skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  progress_.progress_monitor = on_progress;
}

JpegReader::~JpegReader() {
  jpeg_destroy_decompress(&info_);
}

Error JpegReader::error() const {
  char text[JMSG_LENGTH_MAX];
  auto* info = const_cast<jpeg_decompress_struct*>(&info_);
  errors_.format_message(reinterpret_cast<j_common_ptr>(info), text);
  const ErrorCode code = code_of(errors_.msg_code);
  return make_error(code, fmt::format("JPEG: {}{}", text,
                                      code == ErrorCode::kUnsupported
                                          ? "; convert it to baseline or progressive, 8 bits"
                                          : ""));
}

// A block takes at least a bit or two, so bytes tell how large an image can be at most; otherwise a
// hundred bytes could ask for a gigabyte.
Result<void> JpegReader::check_size() const {
  if (uint64_t{width()} * height() > kPixelsMax) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("JPEG of {} x {} pixels: at most {} are decoded; make it smaller",
                                  width(), height(), kPixelsMax));
  }
  uint64_t blocks = 0;
  for (int i = 0; i < info_.num_components; ++i) {
    const jpeg_component_info& component = info_.comp_info[i];
    blocks += uint64_t{component.width_in_blocks} * component.height_in_blocks;
  }
  uint64_t bits_min = info_.progressive_mode != 0 ? blocks : 2 * blocks;
  if (info_.arith_code != 0) bits_min /= 64;  // Which has no codes of whole bits.
  if (bits_min / 8 > encoded_bytes_) {
    return make_error(ErrorCode::kCorrupt, fmt::format("JPEG: {} bytes cannot hold {} x {} pixels",
                                                       encoded_bytes_, width(), height()));
  }
  return {};
}

Result<void> JpegReader::open(std::span<const std::byte> encoded) {
  if (info_.mem == nullptr) return make_error(ErrorCode::kNoMemory, "JPEG: no memory");
  close();
  info_.src = &source_;
  info_.progress = &progress_;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(encoded.data());
  source_.bytes_in_buffer = encoded.size();
  encoded_bytes_ = encoded.size();
  ended_ = false;
  rows_to_drop_ = 0;
  left_bytes_ = 0;
  if (!attempt([this] { jpeg_read_header(&info_, TRUE); })) return error();
  return check_size();
}

void JpegReader::close() {
  if (info_.mem != nullptr) jpeg_abort_decompress(&info_);
}

J_COLOR_SPACE JpegReader::output_space(uint32_t channels) const {
  const J_COLOR_SPACE stored = info_.jpeg_color_space;
  if (stored == JCS_CMYK || stored == JCS_YCCK) return JCS_CMYK;
  return channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

// That the first `coefficients` of each block are known to the last bit: files of several passes
// may leave some out.
bool JpegReader::has_all_bits(int coefficients) const {
  if (info_.coef_bits == nullptr) return true;
  for (int i = 0; i < info_.num_components; ++i) {
    for (int k = 0; k < coefficients; ++k) {
      if (info_.coef_bits[i][k] != 0) return false;
    }
  }
  return true;
}

Result<void> JpegReader::start(uint32_t eighths, uint32_t channels) {
  info_.scale_num = eighths;
  info_.scale_denom = 8;
  info_.out_color_space = output_space(channels);
  grey_of_cmyk_ = is_cmyk() && channels == 1;
  if (!attempt([this] { jpeg_start_decompress(&info_); })) return error();
  if (ended_ && !has_all_bits(DCTSIZE2)) {
    return make_error(ErrorCode::kCorrupt, "JPEG: it ends before its last pass");
  }
#if defined(PENSTOCK_OWN_HUFFMAN)
  if (own_huffman_ && huffman_.begin(info_)) info_.entropy->decode_mcu = on_mcu;
#endif
  return {};
}

// Columns at the edges of a selection lack the neighbours that smooth upsampling of colour takes
// into account, and very narrow ones are upsampled in another way: so a few more are selected.
void JpegReader::skip_to(const Window& window) {
  constexpr uint32_t kMargin = 8;
  constexpr uint32_t kWidthMin = 64;
  JDIMENSION left = window.left - std::min(window.left, kMargin);
  JDIMENSION width = std::min(std::max(window.left + window.width + kMargin - left, kWidthMin),
                              info_.output_width - left);
  if (width < info_.output_width) jpeg_crop_scanline(&info_, &left, &width);
  left_bytes_ = window.left - left;
  rows_to_drop_ = window.top;
  if (window.top > 0) rows_to_drop_ -= jpeg_skip_scanlines(&info_, window.top);
}

Result<void> JpegReader::select(const Window& window) {
  left_bytes_ = window.left;
  rows_to_drop_ = window.top;
  // Where bits are missing the library smooths over blocks, which it does not do right in parts.
  constexpr int kSmoothedCoefficients = 10;
  if (has_all_bits(kSmoothedCoefficients)) {
    if (!attempt([&] { skip_to(window); })) return error();
  }
  left_bytes_ *=
      is_cmyk() ? (grey_of_cmyk_ ? 1u : 3u) : static_cast<size_t>(info_.output_components);
  return {};
}

size_t JpegReader::row_bytes() const {
  return size_t{info_.output_width} * static_cast<size_t>(info_.output_components);
}

void JpegReader::read_row(uint8_t* row) {
  JSAMPROW rows[1] = {row};
  while (jpeg_read_scanlines(&info_, rows, 1) == 0) {
  }
}

void JpegReader::convert(uint8_t* row) const {
  inverted_cmyk_to_rgb(row, info_.output_width);
  if (grey_of_cmyk_) rgb_to_grey(row, info_.output_width, row);
}

Result<void> JpegReader::read(uint8_t* rows, size_t stride, uint32_t count) {
  const bool done = attempt([&] {
    for (; rows_to_drop_ > 0; --rows_to_drop_) read_row(rows);
    for (uint32_t i = 0; i < count; ++i) read_row(rows + i * stride);
  });
  if (!done) return error();
  if (is_cmyk()) {
    for (uint32_t i = 0; i < count; ++i) convert(rows + i * stride);
  }
  return {};
}

}  // namespace penstock::decode
