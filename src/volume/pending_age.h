// Since when content waits in the journal to be stored.
#pragma once

#include "penstock/meta.h"
#include "volume/journal.h"

namespace penstock::volume {

// When the oldest content that is still referred to and lies in the journal was written, as its record
// says: so a new owner knows too. 0: there is none.
Result<meta::Time> oldest_content(meta::Database& database, Journal& journal);

}  // namespace penstock::volume
