// Random use of a journal, compared with a list.
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;

class ListModel {
 public:
  explicit ListModel(uint64_t seed) : random_(seed) {
    options_.segment_bytes = (16 + random_() % 3 * 8) * 4096;
    options_.limit_bytes = (2 + random_() % 6) * options_.segment_bytes;
    options_.spare_bytes = random_() % 4 * options_.segment_bytes;
    journal_ = ledger_.reopen(*fs_, options_);
  }

  void step() {
    switch (random_() % 20) {
      case 0:
        return restart();
      case 1:
        return cut_power();
      case 2:
      case 3:
        ASSERT_THAT(ledger_.sync(*journal_), IsOk());
        return;
      case 4:
      case 5:
        return commit();
      default:
        return append();
    }
  }

 private:
  void append() {
    const bool small = random_() % 3 != 0;
    Entry entry{random_bytes(random_() % 500, random_()),
                random_bytes(random_() % (small ? 50 : 50'000), random_())};
    const auto place = ledger_.append(*journal_, std::move(entry));
    if (place.ok()) return;
    ASSERT_THAT(place, FailsWith(ErrorCode::kBusy));
    // Enough for a whole segment to go.
    ASSERT_THAT(ledger_.commit(*journal_, ledger_.appended()), IsOk());
  }

  void commit() {
    const uint64_t open = ledger_.appended() - ledger_.committed();
    ASSERT_THAT(ledger_.commit(*journal_, ledger_.committed() + random_() % (open + 1)), IsOk());
  }

  void restart() {
    journal_.reset();
    journal_ = ledger_.reopen(*fs_, options_);
    ASSERT_NE(journal_, nullptr) << ledger_.error().to_string();
  }

  void cut_power() {
    journal_.reset();
    fs_ = fs_->power_cut(random_());
    ledger_.power_was_cut();
    restart();
  }

  std::mt19937_64 random_;
  JournalOptions options_ = small_options();
  std::unique_ptr<MemoryFileSystem> fs_ = std::make_unique<MemoryFileSystem>();
  Ledger ledger_;
  std::unique_ptr<Journal> journal_;
};

TEST(JournalModel, HoldsWhatAListHolds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ListModel model(seed);
    for (int i = 0; i < 150 && !HasFailure(); ++i) model.step();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::volume
