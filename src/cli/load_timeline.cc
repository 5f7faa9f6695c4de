#include "cli/load_timeline.h"

#include <algorithm>

namespace penstock::cli {

namespace {

constexpr size_t kMomentsMax = 600;  // More than there are pixels is of no use.

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

LoadMoment moment_between(const loader::Report& before, const loader::Report& after) {
  LoadMoment moment;
  moment.begin = seconds(before.elapsed);
  moment.end = seconds(after.elapsed);
  const double took = std::max(moment.end - moment.begin, 1e-9);
  const double workers = took * std::max(1U, after.threads);
  const auto share = [](Nanoseconds now, Nanoseconds then, double whole) {
    return std::clamp(seconds(now - then) / whole, 0.0, 1.0);
  };
  moment.samples_per_second = static_cast<double>(after.samples - before.samples) / took;
  moment.bytes_per_second = static_cast<double>(after.bytes_read - before.bytes_read) / took;
  moment.decode = share(after.decode_busy, before.decode_busy, workers);
  moment.read = share(after.read_busy, before.read_busy, workers);
  moment.storage = share(after.storage_busy, before.storage_busy, took);
  moment.waiting = share(after.next_total, before.next_total, took);
  const uint64_t batches = after.batches - before.batches;
  if (batches == 0) return moment;
  // The reports have means over everything before.
  const double sum = after.ready_mean * static_cast<double>(after.batches) -
                     before.ready_mean * static_cast<double>(before.batches);
  moment.ready = std::max(0.0, sum / static_cast<double>(batches));
  return moment;
}

LoadMoment merge(const LoadMoment& first, const LoadMoment& second) {
  const double one = first.end - first.begin;
  const double two = second.end - second.begin;
  const double whole = std::max(one + two, 1e-9);
  const auto mean = [&](double LoadMoment::*value) {
    return (first.*value * one + second.*value * two) / whole;
  };
  LoadMoment both;
  both.begin = first.begin;
  both.end = second.end;
  for (const auto value :
       {&LoadMoment::samples_per_second, &LoadMoment::bytes_per_second, &LoadMoment::decode,
        &LoadMoment::read, &LoadMoment::storage, &LoadMoment::waiting, &LoadMoment::ready})
    both.*value = mean(value);
  return both;
}

void LoadTimeline::look(const loader::Loader& loader) {
  const auto now = std::chrono::steady_clock::now();
  if (now < due_) return;
  due_ = now + every_;
  add(loader.report());
}

void LoadTimeline::finish(const loader::Loader& loader) {
  const loader::Report now = loader.report();
  // Of a very short stretch the numbers say little.
  if (moments_.size() < 2 || now.elapsed - last_.elapsed > every_ / 2) add(now);
}

void LoadTimeline::add(const loader::Report& now) {
  if (now.batches > 0) moments_.push_back(moment_between(last_, now));
  last_ = now;
  if (moments_.size() < kMomentsMax) return;
  for (size_t i = 0; i < moments_.size() / 2; ++i)
    moments_[i] = merge(moments_[2 * i], moments_[2 * i + 1]);
  moments_.resize(moments_.size() / 2);
  every_ *= 2;
}

}  // namespace penstock::cli
