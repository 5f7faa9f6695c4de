#pragma once

#include "checkpoint/commit.h"
#include "checkpoint/job.h"
#include "checkpoint/session.h"

namespace penstock::checkpoint {

// Tells the others that this rank's part is durable. Rank 0 waits for all parts and commits; the others
// wait for its word. The failure of any rank is a failure for all, and names it.
Result<void> commit_with_ranks(io::FileSystem& fs, Session& session, Job& job,
                               const Commit& commit);

// This rank cannot take part in what ranks speak of under `topic`: tells the others. Returns why, which
// is the failure of another rank where that made rank 0 give up, and remove all files, before.
Error fail_with_ranks(io::FileSystem& fs, Session& session, const std::string& topic,
                      const Error& error, const Commit& commit);

}  // namespace penstock::checkpoint
