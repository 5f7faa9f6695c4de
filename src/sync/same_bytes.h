#pragma once

#include "sync/context.h"
#include "sync/copy_queue.h"

namespace penstock::sync {

// Whether source and target, which are of one size, have the same bytes: by the MD5 that S3 keeps,
// so that only the file is read, or by reading both. Blocking.
Result<bool> same_bytes(Context& context, const CopyItem& item);

}  // namespace penstock::sync
