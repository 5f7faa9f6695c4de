#include "loader/read_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace penstock::loader {

namespace {

class Planner {
 public:
  Planner(const std::vector<Wanted>& wanted, const ReadRules& rules)
      : wanted_(wanted), rules_(rules) {
    plan_.places.resize(wanted.size());
  }

  template <typename Limit>
  ReadPlan run(const Limit& limit) {
    sort();
    cut_pieces(limit);
    group_units();
    return std::move(plan_);
  }

 private:
  const Wanted& sorted(size_t i) const { return wanted_[order_[i]]; }

  void sort() {
    order_.resize(wanted_.size());
    std::iota(order_.begin(), order_.end(), 0U);
    const auto less = [this](uint32_t left, uint32_t right) {
      const Wanted& a = wanted_[left];
      const Wanted& b = wanted_[right];
      return std::tie(a.source, a.shard, a.object, a.offset) <
             std::tie(b.source, b.shard, b.object, b.offset);
    };
    // As they lie, mostly, where nothing is shuffled.
    if (!std::is_sorted(order_.begin(), order_.end(), less))
      std::sort(order_.begin(), order_.end(), less);
  }

  bool goes_with(const Wanted& one, uint64_t begin, uint64_t end, const Wanted& first) const {
    if (one.source != first.source || one.shard != first.shard || one.object != first.object)
      return false;
    if (one.offset > end && one.offset - end > rules_.gap_max) return false;
    return std::max(end, one.offset + one.size) - begin <= rules_.piece_max || one.offset < end;
  }

  template <typename Limit>
  void cut_pieces(const Limit& limit) {
    piece_of_.resize(wanted_.size());
    for (size_t i = 0; i < order_.size();) {
      const Wanted& first = sorted(i);
      const uint64_t begin = first.offset / rules_.alignment * rules_.alignment;
      uint64_t end = first.offset + first.size;
      size_t next = i + 1;
      for (; next < order_.size() && goes_with(sorted(next), begin, end, first); ++next) {
        end = std::max(end, sorted(next).offset + sorted(next).size);
      }
      add_piece(first, begin, end, limit(first));
      for (; i < next; ++i) {
        piece_of_[order_[i]] = static_cast<uint32_t>(plan_.pieces.size() - 1);
        plan_.places[order_[i]] = plan_.pieces.back().at + (sorted(i).offset - begin);
      }
    }
  }

  void add_piece(const Wanted& first, uint64_t begin, uint64_t end, uint64_t shard_bytes) {
    const uint64_t rounded = (end + rules_.alignment - 1) / rules_.alignment * rules_.alignment;
    Piece piece;
    piece.source = first.source;
    piece.shard = first.shard;
    piece.object = first.object;
    piece.slot = first.slot;
    piece.offset = begin;
    piece.length = std::max(end, std::min(rounded, shard_bytes)) - begin;
    piece.at = plan_.raw_bytes;
    plan_.pieces.push_back(piece);
    const uint64_t step = std::max<uint64_t>(rules_.alignment, 64);
    plan_.raw_bytes += (piece.length + step - 1) / step * step;
  }

  // Pieces in a row make a unit; it ends where it has enough, and no slot needs what comes after.
  void group_units() {
    find_last_pieces();
    size_t next = 0;  // In order_.
    for (uint32_t piece = 0; piece < plan_.pieces.size();) {
      Unit unit{.first_piece = piece, .first_slot = static_cast<uint32_t>(plan_.slots.size())};
      uint64_t bytes = 0;
      uint32_t last = piece;
      do {
        bytes += plan_.pieces[piece].length;
        for (; next < order_.size() && piece_of_[order_[next]] == piece; ++next) {
          add_slot(sorted(next).slot, last);
        }
        ++piece;
        unit.slots = static_cast<uint32_t>(plan_.slots.size()) - unit.first_slot;
      } while (piece < plan_.pieces.size() &&
               (last >= piece || (bytes < rules_.unit_min && unit.slots < rules_.unit_slots_max)));
      unit.pieces = piece - unit.first_piece;
      plan_.units.push_back(unit);
    }
  }

  void find_last_pieces() {
    uint32_t slots = 0;
    for (const Wanted& one : wanted_) slots = std::max(slots, one.slot + 1);
    last_piece_.assign(slots, 0);
    listed_.assign(slots, false);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      uint32_t& last = last_piece_[wanted_[i].slot];
      last = std::max(last, piece_of_[i]);
    }
  }

  void add_slot(uint32_t slot, uint32_t& last) {
    last = std::max(last, last_piece_[slot]);
    if (listed_[slot]) return;
    listed_[slot] = true;
    plan_.slots.push_back(slot);
  }

  const std::vector<Wanted>& wanted_;
  const ReadRules& rules_;
  ReadPlan plan_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> piece_of_;
  std::vector<uint32_t> last_piece_;  // By slot.
  std::vector<bool> listed_;          // By slot.
};

}  // namespace

ReadPlan internal::plan_reads(const std::vector<Wanted>& wanted, const ReadRules& rules,
                              uint64_t (*shard_bytes)(const void*, const Wanted&),
                              const void* context) {
  return Planner(wanted, rules).run([&](const Wanted& one) { return shard_bytes(context, one); });
}

}  // namespace penstock::loader
