// The ranks of a run learn its id, over a directory in which earlier runs may have left anything.
#pragma once

#include <string>

#include "penstock/checkpoint.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Every rank but 0 says hello with a nonce of its own; rank 0, which removed all older hellos when it
// took the lease, answers with the id of the run and the nonces it has seen. A rank that finds its nonce
// there knows that the answer is not of an earlier run. Whose hello was removed with the old ones says
// it again.
Result<std::string> meet(io::FileSystem& fs, const std::string& directory, const Ranks& ranks);

// By rank 0, when the run ends.
void end_meeting(io::FileSystem& fs, const std::string& directory);

}  // namespace penstock::checkpoint
