#include "checkpoint/meeting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "checkpoint/directory.h"
#include "checkpoint/names.h"
#include "checkpoint/patience.h"

namespace penstock::checkpoint {

namespace {

constexpr uint64_t kAnswerBytesMax = 16 * kMiB;

std::string hello_prefix() {
  return fmt::format("{}hello-", kTemporaryPrefix);
}

std::string hello_name(const Ranks& ranks, const std::string& nonce) {
  return fmt::format("{}{}-{}-{}", hello_prefix(), ranks.rank, ranks.count, nonce);
}

std::string answer_path(const std::string& directory) {
  return join(directory, fmt::format("{}answer", kTemporaryPrefix));
}

struct Hello {
  uint32_t rank = 0;
  uint32_t count = 0;
  std::string nonce;
};

std::optional<Hello> parse_hello(std::string_view name) {
  const std::string prefix = hello_prefix();
  if (!name.starts_with(prefix)) return std::nullopt;
  std::istringstream text{std::string(name.substr(prefix.size()))};
  Hello hello;
  char dash1 = 0;
  char dash2 = 0;
  text >> hello.rank >> dash1 >> hello.count >> dash2 >> hello.nonce;
  if (text.fail() || dash1 != '-' || dash2 != '-') return std::nullopt;
  return hello;
}

// Those who are there, by rank.
Result<std::map<uint32_t, std::string>> hellos(io::FileSystem& fs, const std::string& directory,
                                               const Ranks& ranks) {
  std::map<uint32_t, std::string> found;
  Result<void> wrong;
  PENSTOCK_TRY(fs.list(directory, [&](const io::DirectoryEntry& entry) {
    const std::optional<Hello> hello = parse_hello(entry.name);
    if (!hello) return true;
    if (hello->count != ranks.count || hello->rank == 0 || hello->rank >= ranks.count) {
      wrong = make_error(ErrorCode::kInvalid,
                         fmt::format("{}: rank {} of {} came to a run of {} ranks", directory,
                                     hello->rank, hello->count, ranks.count));
    } else if (!found.emplace(hello->rank, hello->nonce).second) {
      wrong = make_error(
          ErrorCode::kBusy,
          fmt::format("{}: two processes say that they are rank {}", directory, hello->rank));
    }
    return wrong.ok();
  }));
  PENSTOCK_TRY(wrong);
  return found;
}

Result<std::string> lead(io::FileSystem& fs, const std::string& directory, const Ranks& ranks) {
  const std::string run = make_nonce();
  Patience patience(deadline_in(ranks.timeout));
  std::map<uint32_t, std::string> there;
  while (true) {
    there = PENSTOCK_TRY(hellos(fs, directory, ranks));
    if (there.size() + 1 == ranks.count) break;
    if (patience.wait()) continue;
    std::vector<uint32_t> missing;
    for (uint32_t rank = 1; rank < ranks.count; ++rank) {
      if (!there.contains(rank)) missing.push_back(rank);
    }
    return make_error(ErrorCode::kTimeout,
                      fmt::format("{}: {} {} did not come within {} s", directory,
                                  missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                                  patience.waited().count() / 1'000'000'000));
  }
  std::string answer = run + "\n";
  for (const auto& [rank, nonce] : there) answer += nonce + "\n";
  PENSTOCK_TRY(io::write_file_durably(fs, answer_path(directory), answer));
  return run;
}

Result<void> say_hello(io::FileSystem& fs, const std::string& path) {
  const Result<std::unique_ptr<io::File>> file =
      fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
  if (file.ok() || file.error().code == ErrorCode::kExists) return {};
  return file.error();
}

Result<std::string> follow(io::FileSystem& fs, const std::string& directory, const Ranks& ranks) {
  const std::string nonce = make_nonce();
  const std::string hello = join(directory, hello_name(ranks, nonce));
  Patience patience(deadline_in(ranks.timeout));
  while (true) {
    const Result<std::string> answer = io::read_file(fs, answer_path(directory), kAnswerBytesMax);
    if (!answer.ok() && answer.error().code != ErrorCode::kNotFound) return answer.error();
    if (answer.ok() && answer->find("\n" + nonce + "\n") != std::string::npos) {
      (void)fs.remove(hello);
      return answer->substr(0, answer->find('\n'));
    }
    PENSTOCK_TRY(say_hello(fs, hello));
    if (patience.wait()) continue;
    (void)fs.remove(hello);
    return make_error(ErrorCode::kTimeout,
                      fmt::format("{}: rank 0 did not answer rank {} within {} s", directory,
                                  ranks.rank, patience.waited().count() / 1'000'000'000));
  }
}

}  // namespace

Result<std::string> meet(io::FileSystem& fs, const std::string& directory, const Ranks& ranks) {
  if (ranks.count == 1) return make_nonce();
  return ranks.rank == 0 ? lead(fs, directory, ranks) : follow(fs, directory, ranks);
}

void end_meeting(io::FileSystem& fs, const std::string& directory) {
  (void)fs.remove(answer_path(directory));
}

}  // namespace penstock::checkpoint
