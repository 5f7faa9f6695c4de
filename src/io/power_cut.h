// The choices that decide what of the unsynced survives a power cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace penstock::io {

struct UnsyncedChange;
struct NameChange;

// Seed 0 loses everything unsynced, seed 1 keeps everything, any other one decides at random, the
// same way each time.
class PowerCutDice {
 public:
  explicit PowerCutDice(uint64_t seed) : seed_(seed), random_(seed) {}

  // What happens to the writes of one file. Files differ, so that a whole one can come back beside
  // one that is all torn.
  enum class Habit : uint8_t { kDrop, kKeep, kTear, kMixed };

  bool keeps_nothing() const { return seed_ == 0; }
  bool keeps_everything() const { return seed_ == 1; }
  Habit habit();
  bool coin() { return below(2) == 0; }
  // How many of `count` changes, from the first, a journal had written: often all or none.
  uint64_t prefix_of(uint64_t count);
  // Leaves `write` the sectors that reached the device.
  void tear(Habit habit, UnsyncedChange& write);
  // Which of `changes` are kept: one is only together with all that it depends on.
  std::vector<bool> keep_names(const std::vector<NameChange>& changes);

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  const uint64_t seed_;
  std::mt19937_64 random_;
};

}  // namespace penstock::io
