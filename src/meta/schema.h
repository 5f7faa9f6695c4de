// The tables of a database of volumes; docs/formats/volume-database.md says what they mean.
#pragma once

#include "meta/sql.h"
#include "penstock/meta.h"

namespace penstock::meta {

// kLive in the text of statements: partial indexes are used only where it is a literal.
#define PENSTOCK_LIVE "9223372036854775807"

// "PnVl": what file(1) and we know our databases by.
inline constexpr int64_t kApplicationId = 0x506e566c;
// The commit that makes the volume.
inline constexpr Version kFirstVersion = 1;

// Settings that hold for this connection only. First of all: nothing has been read then.
Result<void> prepare_connection(Connection& db, uint64_t cache_bytes);

enum class Found : uint8_t { kNothing, kOurs };
// kUnsupported when a newer version made it; kCorrupt when it is something else. Changes nothing.
Result<Found> look_at(Connection& db);

// From here on the log is used.
Result<void> use_log(Connection& db);

// All tables, empty; inside a transaction.
Result<void> make_tables(Connection& db);

}  // namespace penstock::meta
