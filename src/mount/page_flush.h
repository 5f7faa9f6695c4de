// Makes the kernel send what it holds of a file that was written and not sent yet.
//
// Where data and holes are the kernel asks without sending first, so that what was just written
// would look like a hole, and a copy would miss it.
// Threads: all calls from any thread.
#pragma once

#include <string>

#include "penstock/meta.h"

namespace penstock::mount {

class PageFlush {
 public:
  // Of the file system mounted there.
  explicit PageFlush(std::string directory) : directory_(std::move(directory)) {}

  // False where this is not possible: it takes root. Comes back when everything was sent and
  // answered, so others must be answering meanwhile.
  bool flush(meta::Ino ino) const;

 private:
  const std::string directory_;
};

}  // namespace penstock::mount
