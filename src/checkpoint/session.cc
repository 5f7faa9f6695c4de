#include "checkpoint/session.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "base/log.h"
#include "checkpoint/attempt.h"
#include "checkpoint/directory.h"
#include "checkpoint/meeting.h"
#include "checkpoint/names.h"
#include "checkpoint/patience.h"

namespace penstock::checkpoint {

namespace {

constexpr char kSaid = '+';
constexpr char kFailed = '!';
constexpr uint64_t kMessageBytesMax = uint64_t{2} << 30;
constexpr Nanoseconds kFarewell = std::chrono::seconds(5);

Result<void> write_message(io::FileSystem& fs, const std::string& path, char kind,
                           std::string_view text) {
  const std::string unseen = path + ".new";
  {
    const std::unique_ptr<io::File> file = PENSTOCK_TRY(
        fs.open(unseen, {.access = io::Access::kWrite, .create = io::Create::kTruncate}));
    PENSTOCK_TRY(file->write(0, std::as_bytes(std::span(&kind, 1))));
    PENSTOCK_TRY(file->write(1, std::as_bytes(std::span(text))));
    PENSTOCK_TRY(file->close());
  }
  return fs.rename(unseen, path);
}

}  // namespace

Session::Session(io::FileSystem& fs, std::string directory, Ranks ranks)
    : fs_(fs),
      directory_(std::move(directory)),
      ranks_(std::move(ranks)),
      path_(attempt_path(directory_, ranks_.run)) {}

Result<std::unique_ptr<Session>> Session::join(io::FileSystem& fs, const std::string& directory,
                                               const Ranks& given) {
  if (given.count == 0 || given.rank >= given.count) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("rank {} of {} ranks is none", given.rank, given.count));
  }
  Ranks ranks = given;
  if (ranks.run.empty()) ranks.run = PENSTOCK_TRY(meet(fs, directory, ranks));
  std::unique_ptr<Session> session(new Session(fs, directory, std::move(ranks)));
  PENSTOCK_TRY(session->open());
  return session;
}

Result<void> Session::open() {
  const Result<void> made = fs_.make_directory(path_);
  if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
  return {};
}

Session::~Session() {
  if (!leads()) {
    (void)put("bye", "");
    return;
  }
  const Deadline deadline = deadline_in(std::min(kFarewell, ranks_.timeout));
  for (uint32_t rank = 1; rank < ranks_.count; ++rank) (void)get(rank, "bye", deadline);
  end_meeting(fs_, directory_);
  const Result<void> removed = remove_run(fs_, directory_, ranks_.run);
  if (removed.ok()) return;
  log_warn("messages of ranks could not be removed",
           {{"path", path_}, {"error", removed.error().detail}});
}

std::string Session::message_path(uint32_t rank, const std::string& topic) const {
  return ::penstock::checkpoint::join(path_, fmt::format("{}.{}", topic, rank));
}

Result<void> Session::put(const std::string& topic, std::string_view text) {
  return write_message(fs_, message_path(ranks_.rank, topic), kSaid, text);
}

void Session::put_failure(const std::string& topic, const Error& error) {
  const Result<void> told =
      write_message(fs_, message_path(ranks_.rank, topic), kFailed, error.detail);
  if (told.ok()) return;
  log_warn("other ranks could not be told of a failure", {{"error", told.error().detail}});
}

Result<std::string> Session::get(uint32_t rank, const std::string& topic, Deadline deadline) {
  Patience patience(deadline);
  while (true) {
    Result<std::string> text = io::read_file(fs_, message_path(rank, topic), kMessageBytesMax);
    if (text.ok() && !text->empty()) {
      if (text->front() == kSaid) return text->substr(1);
      return make_error(ErrorCode::kIo, fmt::format("rank {}: {}", rank, text->substr(1)));
    }
    if (!text.ok() && text.error().code != ErrorCode::kNotFound) return text.error();
    if (!patience.wait()) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("rank {} was not heard of within {} s", rank,
                                    patience.waited().count() / 1'000'000'000));
    }
  }
}

Result<std::vector<std::string>> Session::gather(const std::string& topic, Deadline deadline) {
  std::vector<std::string> texts(ranks_.count);
  std::vector<uint32_t> missing;
  const auto begun = std::chrono::steady_clock::now();
  for (uint32_t rank = 0; rank < ranks_.count; ++rank) {
    // Those after one that is missing are looked at, not waited for.
    const Deadline until = missing.empty() ? deadline : std::chrono::steady_clock::now();
    Result<std::string> text = get(rank, topic, until);
    if (text.ok()) {
      texts[rank] = std::move(*text);
    } else if (text.error().code == ErrorCode::kTimeout) {
      missing.push_back(rank);
    } else {
      return text.error();
    }
  }
  if (missing.empty()) return texts;
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun);
  return make_error(ErrorCode::kTimeout,
                    fmt::format("{} {} did not come within {} s: {} of {} ranks were there",
                                missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                                waited.count(), ranks_.count - missing.size(), ranks_.count));
}

Result<std::vector<std::string>> Session::exchange(const std::string& topic,
                                                   const std::string& mine) {
  const std::string name = fmt::format("exchange-{}-{}", exchanges_++, topic);
  const std::string answer = name + "-all";
  PENSTOCK_TRY(put(name, mine));
  if (!leads()) {
    // Longer than rank 0 waits: it knows who is missing.
    const std::string all = PENSTOCK_TRY(get(0, answer, deadline_in(2 * ranks_.timeout)));
    const nlohmann::json list = nlohmann::json::parse(all, nullptr, false);
    if (!list.is_array()) return make_error(ErrorCode::kCorrupt, "a message of rank 0 is none");
    return list.get<std::vector<std::string>>();
  }
  Result<std::vector<std::string>> texts = gather(name, deadline_in(ranks_.timeout));
  if (!texts.ok()) {
    put_failure(answer, texts.error());
    return texts;
  }
  PENSTOCK_TRY(put(answer, nlohmann::json(*texts).dump()));
  return texts;
}

}  // namespace penstock::checkpoint
