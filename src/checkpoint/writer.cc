#include "checkpoint/writer.h"

#include "base/log.h"
#include "checkpoint/names.h"
#include "checkpoint/piece_writer.h"

namespace penstock::checkpoint {

Writer::Writer(io::FileSystem& fs, const CheckpointerOptions& options)
    : fs_(fs),
      directory_(options.directory),
      mode_(options.mode),
      sha256_(options.sha256_sums),
      limiter_(static_cast<double>(options.max_bandwidth), static_cast<double>(kPieceBytes)) {}

Result<void> Writer::write(Job& job, const Manifest* before, const std::string& before_path) {
  Result<void> written = write_files(job, before, before_path);
  if (!written.ok() && written.error().code == ErrorCode::kIo && job.pieces.keeps()) {
    log_warn("writing a checkpoint failed; writing it once more, to new files",
             {{"directory", directory_}, {"error", written.error().detail}});
    job.attempt.reset();
    if (job.place.shared) {
      ++job.place.retry;
    } else {
      job.place.nonce = make_nonce();
    }
    job.attempt = PENSTOCK_TRY(Attempt::begin(fs_, directory_, job.plan, mode_, job.place));
    job.change_report([](SaveReport& report) { ++report.rewritten; });
    written = write_files(job, nullptr, "");
  }
  PENSTOCK_TRY(written);
  job.pieces.drop();
  job.manifest.nonce = job.place.nonce;
  for (FilePlan& file : job.plan.files) job.manifest.files.push_back(std::move(file.entry));
  return {};
}

Result<void> Writer::write_files(Job& job, const Manifest* before, const std::string& before_path) {
  PENSTOCK_TRY(fs_.sync_directory(directory_));
  job.written_bytes = 0;
  PieceWriter pieces(job, limiter_, sha256_);
  if (before != nullptr && job.pieces.keeps()) {
    PENSTOCK_TRY(pieces.write_changed(*before, before_path));
  } else {
    PENSTOCK_TRY(pieces.write_all());
  }
  return job.attempt->finish_files(job.plan);
}

}  // namespace penstock::checkpoint
