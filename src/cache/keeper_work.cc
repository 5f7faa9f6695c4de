#include "cache/keeper_work.h"

#include <fmt/core.h>

#include <utility>

#include "cache/directory_open.h"

namespace penstock::cache {

namespace {

using std::chrono::steady_clock;

}  // namespace

KeeperWork::KeeperWork(CacheDirectory& directory, const KeeperOptions& options, KeeperDesk& desk)
    : directory_(directory),
      options_(options),
      desk_(desk),
      folder_(fmt::format("{}/{}", directory.path(), kMembersName)),
      gauges_(make_gauges(directory.path())),
      pace_{options.tick},
      space_(directory, pace_.space()),
      membership_(directory.file_system(), folder_, directory.member()),
      log_(directory.file_system(), folder_, directory.member()) {}

KeeperWork::Gauges KeeperWork::make_gauges(const std::string& directory) {
  Metrics& all = Metrics::global();
  const Labels labels = {{"directory", directory}};
  return {all.counter("penstock_cache_evictions_total",
                      "Entries that this process removed to make room.", labels),
          all.gauge("penstock_cache_used_bytes", "Bytes of the files of all entries.", labels),
          all.gauge("penstock_cache_limit_bytes", "What may be used now: quota and floor.", labels),
          all.gauge("penstock_cache_entries", "Entries in the directory.", labels)};
}

bool KeeperWork::round() {
  bool more = tick();
  if (evictor_ != nullptr && evictor_->scan_due(steady_clock::now())) {
    scan();
    more = true;
  }
  if (std::exchange(deposed_, false)) step_down();
  return more;
}

bool KeeperWork::tick() {
  const uint64_t ticket = desk_.begin_tick();
  now_ = steady_clock::now();
  TickErrors errors;
  elect(errors);
  const bool more = evictor_ != nullptr ? evictor_tick(errors) : member_tick(errors);
  report(errors);
  const bool counting =
      evictor_ != nullptr && (scanning_ || evictor_->scan_due(steady_clock::now()));
  if (!errors.first().ok() || (!more && !counting)) desk_.end_tick(ticket, errors.first());
  return more;
}

void KeeperWork::report(const TickErrors& errors) {
  if (!errors.first().ok() && options_.on_error) options_.on_error(errors.first().error());
}

// Holds the lock of this member, and sees to it that others see it.
Result<void> KeeperWork::join() {
  if (!membership_.joined()) {
    membership_checked_ = now_;
    return membership_.join();
  }
  if (now_ - membership_checked_ < pace_.own_locks()) return {};
  membership_checked_ = now_;
  const Result<bool> there = membership_.check();
  if (!there.ok() && there.error().code == ErrorCode::kNotFound) {
    return make_error(ErrorCode::kIo, fmt::format("{} is gone", folder_), true);
  }
  if (!there.ok()) return there.error();
  if (*there) return {};
  // Somebody cleared the folder: what was said there nobody will read.
  lost_ = true;
  return log_.remove_all();
}

std::optional<Terms> KeeperWork::terms(TickErrors& errors) {
  if (!options_.may_evict) return Terms{};
  const SizeOrPercent quota = desk_.quota();
  const SizeOrPercent& floor = options_.free_floor;
  if (!quota.is_percent() && !floor.is_percent()) return Terms{quota.bytes, floor.bytes};
  space_.refresh(now_, false, errors);
  if (!space_.last()) return std::nullopt;
  const uint64_t whole = space_.last()->total_bytes;
  return Terms{quota.of(whole), floor.of(whole)};
}

void KeeperWork::elect(TickErrors& errors) {
  if (evictor_ != nullptr || !options_.may_evict) return;
  if (tried_to_evict_ && now_ - *tried_to_evict_ < pace_.election()) return;
  const Result<void> joined = join();
  if (!joined.ok()) return errors.note(joined);
  OwnNews news;
  const std::optional<Terms> own_terms = terms(errors);
  if (!own_terms) return;
  tried_to_evict_ = now_;
  Result<std::unique_ptr<io::FileLock>> lock = lock_evictor(directory_);
  if (!lock.ok()) {
    if (lock.error().code != ErrorCode::kBusy) errors.note(lock.error());
    return;
  }
  unsaid_ = log_.take_pending();
  evictor_ = std::make_unique<Evictor>(directory_, std::move(*lock), space_, pace_,
                                       [this](const auto& decide) { desk_.regrant(decide); });
  news.standing = desk_.standing();
  news.terms = *own_terms;
  apply(evictor_->start(news, now_, errors), false);
  evictor_->load(errors);
}

bool KeeperWork::evictor_tick(TickErrors& errors) {
  const Result<void> joined = join();
  if (!joined.ok()) errors.note(joined);
  const std::optional<Terms> own_terms = terms(errors);
  if (!own_terms) return false;
  OwnNews news = desk_.drain();
  news.terms = *own_terms;
  news.notes.lost |= std::exchange(lost_, false);
  auto& notes = news.notes.notes;
  notes.insert(notes.begin(), unsaid_.begin(), unsaid_.end());
  unsaid_.clear();
  said_ = news.standing;
  const Evictor::Outcome outcome = evictor_->tick(std::move(news), now_, errors);
  if (outcome.deposed) {
    deposed_ = true;
    return true;
  }
  apply(outcome, outcome.known);
  return outcome.more;
}

// Another evicts now, and knows nothing of what this process took.
void KeeperWork::step_down() {
  evictor_.reset();
  lost_ = true;
  Grant nothing;
  const Standing standing = desk_.standing();
  nothing.ceiling = standing.published_bytes + standing.reserved_bytes();
  desk_.adopt(nothing);
}

void KeeperWork::apply(const Evictor::Outcome& outcome, bool granted) {
  evictions_ += outcome.evictions;
  gauges_.evictions.add(outcome.evictions);
  tell({.evictor = true,
        .known = outcome.known,
        .granted = granted,
        .used_bytes = outcome.used_bytes,
        .limit_bytes = outcome.limit_bytes,
        .entries = outcome.entries,
        .evictions = evictions_,
        .members = outcome.members,
        .index_bytes = outcome.index_bytes});
}

void KeeperWork::tell(const KeeperStatus& status) {
  desk_.set_status(status);
  gauges_.used_bytes.set(static_cast<int64_t>(status.used_bytes));
  gauges_.limit_bytes.set(static_cast<int64_t>(status.limit_bytes));
  gauges_.entries.set(static_cast<int64_t>(status.entries));
}

void KeeperWork::scan() {
  TickErrors errors;
  scanning_ = true;
  evictor_->scan(
      [this] {
        if (desk_.wanted() || steady_clock::now() - now_ >= options_.tick) tick();
        return !deposed_ && !desk_.stopping();
      },
      errors);
  scanning_ = false;
  report(errors);
}

bool KeeperWork::member_tick(TickErrors& errors) {
  read_state_file(errors);
  // Who only looks on leaves no trace, unless it changes something.
  if (!options_.may_evict && !desk_.has_notes() && !log_.pending()) return false;
  const Result<void> joined = join();
  if (!joined.ok()) {
    errors.note(joined);
    return false;
  }
  const std::optional<Terms> own_terms = terms(errors);
  if (own_terms) errors.note_missing(write_log(*own_terms, false));
  return false;
}

void KeeperWork::read_state_file(TickErrors& errors) {
  const Result<State> state = read_state(directory_.file_system(), state_path(directory_));
  if (!state.ok()) {
    // Torn by a power cut: the next evictor writes another.
    if (state.error().code != ErrorCode::kCorrupt) errors.note(state.error());
    return;
  }
  if (state->counter == state_counter_ && state->evictor == state_evictor_) return;
  state_counter_ = state->counter;
  state_evictor_ = state->evictor;
  const StateRow* const row = state->row_of(member_hash(directory_.member()));
  if (row != nullptr) {
    to_confirm_ = row->changed;
    desk_.adopt({.ceiling = row->ceiling,
                 .counter = static_cast<uint32_t>(state->counter),
                 .open_bytes = state->open_bytes,
                 .invited_bytes = state->invited_bytes,
                 .invited = state->invited});
  }
  tell({.known = state->known,
        .granted = row != nullptr,
        .used_bytes = state->used,
        .limit_bytes = state->limit,
        .entries = state->entries,
        .evictions = evictions_,
        .members = state->members});
}

Result<void> KeeperWork::write_log(const Terms& terms, bool last) {
  // The notes stay where they are until there is a file for them.
  const bool fresh_file = PENSTOCK_TRY(log_.prepare(terms, said_));
  wrote_ = true;
  add_to_log(desk_.drain(), terms, fresh_file);
  if (last) (void)log_.add(Left{});
  return log_.flush();
}

void KeeperWork::add_to_log(const OwnNews& news, const Terms& terms, bool fresh_file) {
  bool anything = false;
  if (fresh_file) {
    said_terms_ = terms;
  } else if (terms != said_terms_ && log_.add(terms)) {
    said_terms_ = terms;
    anything = true;
  }
  lost_ |= news.notes.lost;
  for (const Note& note : news.notes.notes) {
    const bool said = log_.add(note);
    anything |= said;
    lost_ |= !said && note.changes_files();
  }
  if (news.tally != Tally{}) anything |= log_.add(news.tally);
  if (lost_ && log_.add(Lost{})) lost_ = false;
  if ((anything || is_news(news.standing)) && log_.add(news.standing)) said_ = news.standing;
}

bool KeeperWork::is_news(const Standing& standing) const {
  return standing.published_bytes != said_.published_bytes ||
         standing.reserved_blocks != said_.reserved_blocks ||
         standing.ceiling_bytes != said_.ceiling_bytes || !reached(said_.adopted, to_confirm_);
}

void KeeperWork::finish() {
  now_ = steady_clock::now();
  TickErrors errors;
  if (evictor_ != nullptr) {
    evictor_tick(errors);
    if (!deposed_) evictor_->hand_over(now_, errors);
    evictor_.reset();
    errors.note(membership_.leave());
  } else if (wrote_ || desk_.has_notes()) {
    // Its lock stays behind, free, for the evictor to find the log by.
    const Result<void> joined = membership_.join();
    errors.note(joined);
    const std::optional<Terms> own_terms = joined.ok() ? terms(errors) : std::nullopt;
    if (own_terms) errors.note(write_log(*own_terms, true));
  } else {
    errors.note(membership_.leave());
  }
  report(errors);
}

}  // namespace penstock::cache
