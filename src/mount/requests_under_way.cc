#include "mount/requests_under_way.h"

#include <algorithm>

namespace penstock::mount {

namespace {

std::atomic<uint64_t> last_id = 0;

}  // namespace

// Written by one thread. Whoever reads it takes the fields for true if the version was even before,
// and is the same after.
struct RequestsUnderWay::Place {
  std::atomic<uint64_t> version = 0;
  std::atomic<uint64_t> number = 0;
  std::atomic<uint32_t> opcode = 0;
  std::atomic<meta::Ino> ino = 0;
  std::atomic<uint64_t> offset = 0;
  std::atomic<uint64_t> length = 0;
  std::atomic<RequestFacts::Clock::rep> begun = 0;
  WaitBoard waits_for = nullptr;

  void write(const RequestFacts& request);
  std::optional<RequestFacts> read() const;
};

// What a thread knows of itself.
struct RequestsUnderWay::Mine {
  uint64_t owner = 0;  // Whose place it is.
  std::shared_ptr<Place> place;
  RequestFacts request;
};

void RequestsUnderWay::Place::write(const RequestFacts& request) {
  const uint64_t before = version.load(std::memory_order_relaxed);
  // None of these may come before the first, nor after the last: release and acquire see to it.
  version.store(before + 1, std::memory_order_relaxed);
  number.store(request.number, std::memory_order_release);
  opcode.store(request.opcode, std::memory_order_release);
  ino.store(request.ino, std::memory_order_release);
  offset.store(request.offset, std::memory_order_release);
  length.store(request.length, std::memory_order_release);
  begun.store(request.begun.time_since_epoch().count(), std::memory_order_release);
  version.store(before + 2, std::memory_order_release);
}

// Nothing where it is just being written: then it is new, and not of interest yet.
std::optional<RequestFacts> RequestsUnderWay::Place::read() const {
  const uint64_t before = version.load(std::memory_order_acquire);
  RequestFacts request;
  request.number = number.load(std::memory_order_acquire);
  request.opcode = opcode.load(std::memory_order_acquire);
  request.ino = ino.load(std::memory_order_acquire);
  request.offset = offset.load(std::memory_order_acquire);
  request.length = length.load(std::memory_order_acquire);
  request.begun = RequestFacts::Clock::time_point(
      RequestFacts::Clock::duration(begun.load(std::memory_order_acquire)));
  const bool whole = before % 2 == 0 && version.load(std::memory_order_relaxed) == before;
  if (!whole || request.number == 0) return std::nullopt;
  return request;
}

RequestsUnderWay::RequestsUnderWay() : id_(++last_id) {}

RequestsUnderWay::Mine& RequestsUnderWay::of_thread() {
  thread_local Mine mine;
  return mine;
}

RequestsUnderWay::Mine& RequestsUnderWay::own_place() {
  Mine& mine = of_thread();
  if (mine.owner == id_) return mine;
  const std::lock_guard lock(mutex_);
  const auto free =
      std::ranges::find_if(places_, [](const auto& place) { return place.use_count() == 1; });
  mine.place = free != places_.end() ? *free : places_.emplace_back(std::make_shared<Place>());
  mine.owner = id_;
  mine.place->write({});
  show_waits_on(&mine.place->waits_for);
  return mine;
}

void RequestsUnderWay::begin(const RequestFacts& request) {
  Mine& mine = own_place();
  mine.request = request;
  mine.place->write(request);
}

const RequestFacts* RequestsUnderWay::mine(uint64_t number) const {
  const Mine& mine = of_thread();
  const bool is_it = mine.owner == id_ && number != 0 && mine.request.number == number;
  return is_it ? &mine.request : nullptr;
}

void RequestsUnderWay::end() {
  Mine& mine = of_thread();
  if (mine.owner != id_) return;
  mine.request.number = 0;
  // The rest stays as it is: whoever reads just now sees it as it was a moment ago.
  mine.place->number.store(0, std::memory_order_release);
}

RequestFacts RequestsUnderWay::hand_over() {
  Mine& mine = of_thread();
  if (mine.owner != id_) return {};
  const RequestFacts request = mine.request;
  end();
  return request;
}

std::vector<RequestsUnderWay::Seen> RequestsUnderWay::all() const {
  std::vector<Seen> seen;
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Place>& place : places_) {
    const std::optional<RequestFacts> request = place->read();
    if (!request) continue;
    seen.push_back({*request, place->waits_for.load(std::memory_order_relaxed)});
  }
  return seen;
}

}  // namespace penstock::mount
