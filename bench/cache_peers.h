// Well-known cache policies, from their published descriptions, to compare ours with. Entries are of
// one size; every miss is filled, as these policies demand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace peers {

using Key = uint32_t;

class Peer {
 public:
  virtual ~Peer() = default;
  // True for a hit. A miss is filled.
  virtual bool access(Key key) = 0;
};

// Keys from the oldest to the newest, each at most once.
class Queue {
 public:
  size_t size() const { return order_.size(); }
  bool contains(Key key) const { return where_.contains(key); }
  void push(Key key) {
    order_.push_back(key);
    where_[key] = std::prev(order_.end());
  }
  void erase(Key key) {
    const auto found = where_.find(key);
    if (found == where_.end()) return;
    order_.erase(found->second);
    where_.erase(found);
  }
  void renew(Key key) {
    erase(key);
    push(key);
  }
  Key front() const { return order_.front(); }
  Key pop() {
    const Key key = order_.front();
    erase(key);
    return key;
  }

 private:
  std::list<Key> order_;
  std::unordered_map<Key, std::list<Key>::iterator> where_;
};

// Least recently used goes first; or, as FIFO, least recently filled.
class Lru : public Peer {
 public:
  Lru(size_t capacity, bool renew_on_hit) : capacity_(capacity), renew_(renew_on_hit) {}
  bool access(Key key) override {
    const bool hit = queue_.contains(key);
    if (hit) {
      if (renew_) queue_.renew(key);
      return true;
    }
    if (queue_.size() == capacity_) queue_.pop();
    queue_.push(key);
    return false;
  }

 private:
  size_t capacity_;
  bool renew_;
  Queue queue_;
};

class Random : public Peer {
 public:
  explicit Random(size_t capacity) : capacity_(capacity) {}
  bool access(Key key) override {
    if (where_.contains(key)) return true;
    if (keys_.size() < capacity_) {
      where_[key] = keys_.size();
      keys_.push_back(key);
      return false;
    }
    const size_t at = random_() % keys_.size();
    where_.erase(keys_[at]);
    keys_[at] = key;
    where_[key] = at;
    return false;
  }

 private:
  size_t capacity_;
  std::vector<Key> keys_;
  std::unordered_map<Key, size_t> where_;
  std::mt19937_64 random_{1};
};

// Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache" (FAST 2003), figure 4.
class Arc : public Peer {
 public:
  explicit Arc(size_t capacity) : capacity_(capacity) {}
  bool access(Key key) override {
    if (once_.contains(key) || often_.contains(key)) {
      once_.erase(key);
      often_.renew(key);
      return true;
    }
    if (once_ghosts_.contains(key)) {
      const size_t step = std::max<size_t>(1, often_ghosts_.size() / once_ghosts_.size());
      target_ = std::min(capacity_, target_ + step);
      replace(false);
      once_ghosts_.erase(key);
      often_.push(key);
    } else if (often_ghosts_.contains(key)) {
      const size_t step = std::max<size_t>(1, once_ghosts_.size() / often_ghosts_.size());
      target_ -= std::min(target_, step);
      replace(true);
      often_ghosts_.erase(key);
      often_.push(key);
    } else {
      make_room();
      once_.push(key);
    }
    return false;
  }

 private:
  void replace(bool was_often) {
    const size_t once = once_.size();
    if (once > 0 && (once > target_ || (was_often && once == target_))) {
      once_ghosts_.push(once_.pop());
    } else if (often_.size() > 0) {
      often_ghosts_.push(often_.pop());
    }
  }
  void make_room() {
    const size_t all = once_.size() + often_.size() + once_ghosts_.size() + often_ghosts_.size();
    if (once_.size() + once_ghosts_.size() == capacity_) {
      if (once_.size() < capacity_) {
        once_ghosts_.pop();
        replace(false);
      } else {
        once_.pop();
      }
    } else if (all >= capacity_) {
      if (all == 2 * capacity_) often_ghosts_.pop();
      replace(false);
    }
  }

  size_t capacity_;
  size_t target_ = 0;
  Queue once_, often_, once_ghosts_, often_ghosts_;
};

// Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023), algorithm 1: a small
// queue of a tenth, a main one, and a ghost queue as long as the main one.
class S3Fifo : public Peer {
 public:
  explicit S3Fifo(size_t capacity)
      : capacity_(capacity), small_max_(std::max<size_t>(1, capacity / 10)) {}
  bool access(Key key) override {
    if (const auto found = uses_.find(key); found != uses_.end()) {
      found->second = std::min(found->second + 1, 3);
      return true;
    }
    while (small_.size() + main_.size() >= capacity_) evict();
    if (ghosts_.contains(key)) {
      ghosts_.erase(key);
      main_.push(key);
    } else {
      small_.push(key);
    }
    uses_[key] = 0;
    return false;
  }

 private:
  void evict() {
    if (small_.size() >= small_max_ || main_.size() == 0) {
      evict_small();
    } else {
      evict_main();
    }
  }
  void evict_small() {
    while (small_.size() > 0) {
      const Key key = small_.pop();
      if (uses_[key] > 1) {
        uses_[key] = 0;
        main_.push(key);
        continue;
      }
      uses_.erase(key);
      if (ghosts_.size() >= capacity_ - small_max_) ghosts_.pop();
      ghosts_.push(key);
      return;
    }
  }
  void evict_main() {
    while (true) {
      const Key key = main_.pop();
      if (uses_[key]-- > 0) {
        main_.push(key);
        continue;
      }
      uses_.erase(key);
      return;
    }
  }

  size_t capacity_;
  size_t small_max_;
  Queue small_, main_, ghosts_;
  std::unordered_map<Key, int> uses_;
};

// Jiang and Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy"
// (SIGMETRICS 2002): one entry in a hundred for those of high inter-reference recency, and ghosts
// of twice the cache.
class Lirs : public Peer {
 public:
  explicit Lirs(size_t capacity)
      : capacity_(capacity), high_max_(std::max<size_t>(1, capacity / 100)) {}
  bool access(Key key) override {
    const bool is_low = low_.contains(key);
    const bool is_high = high_.contains(key);
    const bool recent = stack_.contains(key);
    if (!is_low && !is_high) make_room();
    ghosts_.erase(key);
    stack_.renew(key);
    if (is_low || (low_.size() < capacity_ - high_max_ && high_.size() == 0)) {
      low_.insert(key);
    } else if (recent) {
      high_.erase(key);
      low_.insert(key);
      demote_oldest();
    } else {
      high_.renew(key);
    }
    prune();
    return is_low || is_high;
  }

 private:
  void make_room() {
    if (low_.size() + high_.size() < capacity_) return;
    const Key gone = high_.pop();
    if (!stack_.contains(gone)) return;
    ghosts_.push(gone);
    if (ghosts_.size() > 2 * capacity_) stack_.erase(ghosts_.pop());
  }
  // The bottom of the stack is always one of low recency.
  void demote_oldest() {
    const Key key = stack_.pop();
    low_.erase(key);
    high_.push(key);
  }
  void prune() {
    while (!low_.contains(stack_.front())) ghosts_.erase(stack_.pop());
  }

  size_t capacity_;
  size_t high_max_;
  std::unordered_set<Key> low_;
  Queue stack_;  // Of low, high and ghosts; the most recent at the end.
  Queue high_, ghosts_;
};

// Belady's optimum: keeps what is used soonest, and does not fill what is not.
class Optimum : public Peer {
 public:
  // `keys` are all accesses to come.
  Optimum(size_t capacity, const std::vector<Key>& keys) : capacity_(capacity), next_(keys.size()) {
    std::unordered_map<Key, size_t> seen;
    for (size_t i = keys.size(); i-- > 0;) {
      const auto found = seen.find(keys[i]);
      next_[i] = found == seen.end() ? keys.size() + i : found->second;
      seen[keys[i]] = i;
    }
  }
  bool access(Key key) override {
    const size_t next = next_[now_++];
    const auto found = present_.find(key);
    const bool hit = found != present_.end();
    if (hit) by_next_.erase(found->second);
    present_[key] = next;
    by_next_[next] = key;
    if (present_.size() > capacity_) {
      const auto last = std::prev(by_next_.end());
      present_.erase(last->second);
      by_next_.erase(last);
    }
    return hit;
  }

 private:
  size_t capacity_;
  size_t now_ = 0;
  std::vector<size_t> next_;  // When what access i asks for is used next; never twice the same.
  std::unordered_map<Key, size_t> present_;
  std::map<size_t, Key> by_next_;
};

}  // namespace peers
