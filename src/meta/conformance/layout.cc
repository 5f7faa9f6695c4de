#include <fmt/core.h>

#include <map>

#include "meta/conformance.h"

namespace penstock::meta {

std::string MetaConformance::layout(View& view, Ino ino, uint64_t offset, uint64_t length) {
  std::string text;
  std::map<ChunkId, char> letters;
  for (const Extent& extent : extents(view, ino, offset, length)) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}+{}=", extent.offset, extent.length);
    if (extent.chunk == kZeros) {
      text += '0';
      continue;
    }
    const auto [letter, added] =
        letters.emplace(extent.chunk, static_cast<char>('a' + letters.size()));
    text += fmt::format("{}@{}", letter->second, extent.chunk_offset);
  }
  return text;
}

}  // namespace penstock::meta
