#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::io {

// As File::map(), of an open file descriptor, which may be closed afterwards.
Result<std::unique_ptr<FileMap>> map_file(int fd, uint64_t bytes);

// Advice::kFill. False where the kernel cannot.
bool fill_page_cache(int fd, uint64_t offset, uint64_t length);

}  // namespace penstock::io
