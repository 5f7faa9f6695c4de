// Bytes of a field to numbers in a batch: images, arrays, numbers, JSON.
//
//   decode::ImageDecoder decoder;                           // one per thread; keeps its memory
//   PENSTOCK_TRY(decoder.decode(jpeg, spec, random, out));  // straight into the slot of a batch
//
// What is random is a function of `random` alone: the same number gives the same crop, flip and
// jitter on any thread, machine or build.
//
// Errors: kCorrupt for bytes that are not what they should be (whatever they are, nothing is read
// outside of them, and no memory is taken beyond what the limits below allow), kUnsupported for a
// format or kind of it that is not decoded, with what to do about it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::decode {

enum class DType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};
std::string_view dtype_name(DType type);  // "float16"
Result<DType> parse_dtype(std::string_view name);
size_t dtype_bytes(DType type);

enum class Layout : uint8_t { kChw, kHwc };

enum class Crop : uint8_t {
  kNone,    // The whole image is resized to height x width, whatever its shape was.
  kCenter,  // The shorter side is resized to `resize` (or just so that it fits), then the middle.
  kRandom,  // RandomResizedCrop: a random part of it, by area and aspect, resized.
};

// Defaults are those of torchvision's transforms of the same name. So are the pixels, of Pillow
// images: with fast_scale off, bytes are to the bit those that Pillow 11 gives (Pillow 13 may resize
// rows before columns, which changes some by 1) of
//   kNone    image.resize((width, height), BILINEAR)
//   kCenter  CenterCrop((height, width))(Resize(resize)(image)): only the middle is computed
//   kRandom  image.crop(box).resize((width, height), BILINEAR): what is outside the box has no part
// Turns by EXIF are ignored, as torchvision and Pillow do unless told otherwise.
struct ImageSpec {
  uint32_t height = 224;
  uint32_t width = 224;
  Crop crop = Crop::kNone;
  // kCenter: of the shorter side; at least the larger of height and width, which is what 0 means.
  uint32_t resize = 0;
  std::array<double, 2> scale = {0.08, 1.0};           // kRandom: share of the area,
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3.0};  // and width over height.
  double flip = 0;                                     // Chance of being mirrored left to right.
  // How far brightness, contrast and saturation may go from 1, each way; applied in that order, as
  // Pillow's ImageEnhance does. 0: not at all.
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  // Out = (value / 255 - mean) / std, to within the last bits of a float; of kUint8 neither is
  // allowed. Without mean and std, floats are 0 to 1. Of one channel the first of each counts.
  std::optional<std::array<float, 3>> mean = {};
  std::optional<std::array<float, 3>> std = {};
  DType dtype = DType::kUint8;  // kUint8, kFloat16, kBfloat16 or kFloat32.
  Layout layout = Layout::kChw;
  uint32_t channels = 3;  // 3: grey images are made RGB; 1: colour is made grey. Alpha is dropped.
  // JPEG: let the decoder make it smaller by 2, 4 or 8 where the part is larger than what is wanted
  // of it by at least that much: faster, and a little different from resizing the whole
  // (docs/LOADER.md).
  bool fast_scale = true;

  size_t output_bytes() const;
  Result<void> check() const;  // kInvalid says which setting is wrong, and what it may be.
};

struct ImageInfo {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 0;
  std::string_view format;  // "jpeg" or "png".
};

// Larger images are refused with kUnsupported: a few bytes can claim to be 65,535 x 65,535.
inline constexpr uint64_t kPixelsMax = uint64_t{1} << 28;

// Threads: one at a time; decoders share nothing. Memory: kept between images, as much as the
// largest file, and a few rows of its image and of the output (with contrast, all of the output);
// trim() gives it back. While it decodes, a progressive JPEG or an interlaced PNG needs room for
// the whole of it, at most about 1,000 bytes for each of the file.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;

  static Result<ImageInfo> info(std::span<const std::byte> encoded);
  // JPEG (baseline and progressive; grey, YCbCr, RGB, CMYK and YCCK, the latter two inverted as
  // Adobe's) and PNG (all kinds; 16 bits are rounded to 8). Fills `out`, which has
  // spec.output_bytes() and is aligned as its dtype; on an error, what is in it is undefined.
  // A JPEG that ends early or has bad codes is kCorrupt, not a grey rest; only its end marker may
  // be missing. What lies below the part that is needed is not read, so damage there is not
  // noticed. Requires spec.check().
  Result<void> decode(std::span<const std::byte> encoded, const ImageSpec& spec, uint64_t random,
                      std::span<std::byte> out);
  // The whole image as it is, HWC uint8 with 3 channels: for looking at, and for packing.
  Result<std::vector<std::byte>> decode_whole(std::span<const std::byte> encoded, ImageInfo* info);
  void trim();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// JPEG bytes of an image (HWC uint8, 3 channels), resized so that no side is longer than
// `max_side` (0: as it is). For packing.
Result<std::vector<std::byte>> encode_jpeg(std::span<const std::byte> pixels, uint32_t width,
                                           uint32_t height, uint32_t max_side, int quality);

// The pieces that decode() is made of, for who wants to know what it did.
struct CropBox {
  double left = 0, top = 0, width = 0, height = 0;  // In pixels of the whole image.
  bool flip = false;
};
CropBox crop_box(const ImageSpec& spec, uint32_t width, uint32_t height, uint64_t random);

// A .npy file (versions 1 to 3): its dtype, shape and where its data is. Only C order and this
// machine's byte order: kUnsupported otherwise; objects never.
struct NpyView {
  DType dtype = DType::kUint8;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;
};
Result<NpyView> parse_npy(std::span<const std::byte> bytes);

// "42", " -7\n", "1e-5", "nan": the whole text is one number, spaces around it apart. kCorrupt
// where it is not, or does not fit.
Result<int64_t> parse_int(std::string_view text);
Result<double> parse_float(std::string_view text);

// One value of a JSON document: "cls", "a.b.3" (names and positions, apart by dots; a JSON pointer
// when it begins with '/'; the document itself when it is empty). kNotFound where there is none,
// kInvalid where it is of another kind, kCorrupt where the document is not JSON. An integer may be
// written "3", 3.0 or true. Of a name that comes twice the last counts, as in Python.
// Threads: one at a time; keeps its memory.
class JsonReader {
 public:
  JsonReader();
  ~JsonReader();
  Result<int64_t> read_int(std::span<const std::byte> json, std::string_view path);
  Result<double> read_float(std::span<const std::byte> json, std::string_view path);
  Result<std::string> read_text(std::span<const std::byte> json, std::string_view path);
  Result<void> check(std::span<const std::byte> json);  // That it is JSON at all.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A feature of a serialized tf.train.Example. Whatever the bytes are, spans stay inside of them.
// Packed and unpacked lists; of a feature that comes twice the last counts.
struct ExampleFeature {
  enum class Kind : uint8_t { kBytes, kInt64, kFloat } kind = Kind::kBytes;
  std::vector<std::span<const std::byte>> bytes;
  std::vector<int64_t> ints;
  std::vector<float> floats;
};
Result<ExampleFeature> read_example_feature(std::span<const std::byte> example,
                                            std::string_view name);
// In order of the alphabet.
Result<std::vector<std::string>> example_feature_names(std::span<const std::byte> example);

}  // namespace penstock::decode
