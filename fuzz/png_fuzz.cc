// Whatever bytes come as a PNG.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>

#include "decode/test_images.h"
#include "image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return penstock::decode::decode_anything(data, size);
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Now and then the input becomes a whole file, so that the other mutations have something to
// damage: guessing one would take for ever.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace penstock::decode;  // NOLINT: a small program
  std::minstd_rand random(seed);
  if (size < 8 || random() % 64 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto side = [&] { return static_cast<uint32_t>(1 + random() % 80); };
  const TestImage image = make_photo(side(), side(), random());
  const Bytes file = to_png(image, rows_of(image), {.interlaced = random() % 2 == 0});
  if (file.size() + 4 > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data + 4, file.data(), file.size());
  return 4 + file.size();
}
