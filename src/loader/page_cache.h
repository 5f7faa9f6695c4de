// How files are read: through the page cache when the data stays in it, past it when it does not, so
// that the pages of others stay.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/loader.h"

namespace penstock::loader {

// What may be used without pushing others out: of the machine, or of the control group where that
// is less.
uint64_t available_memory();

struct PageCacheChoice {
  io::CacheMode mode = io::CacheMode::kBuffered;
  bool fits = false;   // Buffered, and all of the data stays there.
  std::string reason;  // "buffered: 12 GiB of data fit in 50 GiB of free memory"
};
PageCacheChoice choose_page_cache(PageCache wanted, uint64_t data_bytes,
                                  uint64_t memory_bytes = available_memory());

}  // namespace penstock::loader
