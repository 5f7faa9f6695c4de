#include "checkpoint/rank_commit.h"

#include <fmt/core.h>

#include "checkpoint/attempt.h"
#include "checkpoint/names.h"

namespace penstock::checkpoint {

namespace {

// Under which rank 0 says what became of a save.
std::string done_topic(const std::string& topic) {
  return topic + "-done";
}

// Tells first: who misses its files must be able to find out why.
void give_up(io::FileSystem& fs, Session& session, const std::string& topic, const Error& error,
             const Commit& commit) {
  session.put_failure(done_topic(topic), error);
  (void)io::remove_tree(fs, attempt_path(commit.directory, commit.nonce));
}

// Other machines wrote them: what is named here must be what is there.
Result<void> check_files(io::FileSystem& fs, const std::string& path, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    const io::FileInfo info = PENSTOCK_TRY(fs.stat(join(path, file.name)));
    if (info.size == file.bytes) continue;
    return make_error(ErrorCode::kIo, fmt::format("{} of rank {} has {} bytes here, not {}",
                                                  file.name, file.rank, info.size, file.bytes));
  }
  return {};
}

Result<void> lead_commit(io::FileSystem& fs, Session& session, const std::string& topic,
                         const Commit& commit) {
  const Result<std::vector<std::string>> parts =
      session.gather(topic, deadline_in(session.ranks().timeout));
  const std::string path = attempt_path(commit.directory, commit.nonce);
  Result<Manifest> whole = parts.ok() ? merge_parts(*parts, commit.nonce) : parts.error();
  Result<void> right = whole.ok() ? check_files(fs, path, *whole) : whole.error();
  if (!right.ok()) {
    give_up(fs, session, topic, right.error(), commit);
    return right;
  }
  const Result<void> committed = commit_attempt(fs, commit, *whole);
  if (!committed.ok()) {
    session.put_failure(done_topic(topic), committed.error());
    return committed;
  }
  // Others find out by themselves, if later.
  (void)session.put(done_topic(topic), "");
  return {};
}

}  // namespace

Result<void> commit_with_ranks(io::FileSystem& fs, Session& session, Job& job,
                               const Commit& commit) {
  PENSTOCK_TRY(session.put(job.topic, manifest_text(job.manifest)));
  job.attempt->hand_over();
  if (session.leads()) return lead_commit(fs, session, job.topic, commit);
  // Longer than rank 0 waits: it knows who is missing.
  const Result<std::string> told =
      session.get(0, done_topic(job.topic), deadline_in(2 * session.ranks().timeout));
  if (told.ok()) return {};
  const Result<bool> committed = was_committed(fs, commit);
  if (committed.ok() && *committed) return {};
  // Whatever that means, the files are not this rank's to remove any more.
  return told.error();
}

Error fail_with_ranks(io::FileSystem& fs, Session& session, const std::string& topic,
                      const Error& error, const Commit& commit) {
  session.put_failure(topic, error);
  if (session.leads()) {
    give_up(fs, session, topic, error, commit);
    return error;
  }
  const Result<std::string> told =
      session.get(0, done_topic(topic), std::chrono::steady_clock::now());
  return told.ok() || told.error().code == ErrorCode::kTimeout ? error : told.error();
}

}  // namespace penstock::checkpoint
