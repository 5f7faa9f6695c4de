#include "store/faulty_store.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"
#include "penstock/frame.h"

namespace penstock::store {

// Runs tasks when they are due, on one thread, which also gives the answers that come from no
// store.
class FaultyStore::Timer {
 public:
  Timer() : thread_([this] { run(); }) {}
  ~Timer() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void run_at(Deadline due, std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.emplace(due, std::move(task));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    set_thread_name("store-faulty");
    std::unique_lock lock(mutex_);
    while (!stopping_ || !tasks_.empty()) {
      if (tasks_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const Deadline due = tasks_.begin()->first;
      if (std::chrono::steady_clock::now() < due) {
        changed_.wait_until(lock, due);
        continue;
      }
      std::function<void()> task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Deadline, std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

namespace {

// A number that follows from the seed, the call and what is asked about it.
uint64_t roll(uint64_t seed, uint64_t call, uint64_t question) {
  const uint64_t parts[] = {call, question};
  return codec::hash_bytes(std::as_bytes(std::span(parts)), seed);
}

bool happens(double rate, uint64_t dice) {
  return static_cast<double>(dice >> 11) * 0x1p-53 < rate;
}

}  // namespace

FaultyStore::FaultyStore(std::unique_ptr<ObjectStore> inner, FaultyStoreOptions options)
    : options_(std::move(options)), inner_(std::move(inner)), timer_(std::make_unique<Timer>()) {}

FaultyStore::~FaultyStore() {
  gate_.close();
}

FaultyStore::Fault FaultyStore::draw(CallKind kind) {
  Fault fault;
  const auto& kinds = options_.kinds;
  if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) return fault;
  const uint64_t call = ++calls_;
  const auto dice = [&](uint64_t question) { return roll(options_.seed, call, question); };
  fault.fail = call == options_.fail_at || happens(options_.error_rate, dice(1));
  fault.delay = happens(options_.delay_rate, dice(2));
  fault.truncate = kind == CallKind::kGet && happens(options_.truncate_rate, dice(3));
  fault.corrupt = kind == CallKind::kGet && happens(options_.corrupt_rate, dice(4));
  fault.dice = dice(5);
  if (fault.fail || fault.delay || fault.truncate || fault.corrupt) ++faults_;
  return fault;
}

template <typename T>
void FaultyStore::pass_on(const Fault& fault, Deadline deadline, Done<T> done,
                          std::function<void(Done<T>)> start) {
  // The pass goes with the last copy of `answer`, after `done` returned: the destructor waits.
  auto pass = std::make_shared<Gate::Pass>(gate_.enter());
  Done<T> answer = [pass, done = std::move(done)](Result<T> result) { done(std::move(result)); };
  const Deadline now = std::chrono::steady_clock::now();
  const Deadline due = fault.delay ? std::min(now + options_.delay, deadline) : now;
  if (fault.fail && !options_.fail_after_effect) {
    timer_->run_at(due, [answer = std::move(answer), error = options_.error] { answer(error); });
    return;
  }
  if (fault.fail) {
    answer = [answer = std::move(answer), error = options_.error](const Result<T>&) {
      answer(error);
    };
  }
  if (!fault.delay) return start(std::move(answer));
  timer_->run_at(due, [start = std::move(start), answer = std::move(answer)] { start(answer); });
}

template <typename T>
Result<T> FaultyStore::pass_on_blocking(CallKind kind, Deadline deadline,
                                        const std::function<Result<T>()>& call) {
  const Fault fault = draw(kind);
  if (fault.delay) {
    const Deadline now = std::chrono::steady_clock::now();
    std::this_thread::sleep_until(std::min(now + options_.delay, deadline));
  }
  if (fault.fail && !options_.fail_after_effect) return options_.error;
  Result<T> result = call();
  if (fault.fail) return options_.error;
  return result;
}

class FaultyStore::FaultyUpload final : public Upload {
 public:
  FaultyUpload(FaultyStore& store, std::unique_ptr<Upload> inner, Deadline deadline)
      : store_(store), inner_(std::move(inner)), deadline_(deadline) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    return store_.pass_on_blocking<void>(CallKind::kUpload, deadline_,
                                         [&] { return inner_->write(bytes); });
  }
  Result<ObjectInfo> finish() override {
    return store_.pass_on_blocking<ObjectInfo>(CallKind::kUpload, deadline_,
                                               [&] { return inner_->finish(); });
  }
  void abort() override { inner_->abort(); }

 private:
  FaultyStore& store_;
  std::unique_ptr<Upload> inner_;
  const Deadline deadline_;
};

void FaultyStore::async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                            GetOptions options, Done<GetResult> done) {
  const Fault fault = draw(CallKind::kGet);
  Done<GetResult> spoilt = [fault, into, done = std::move(done)](Result<GetResult> result) {
    if (result.ok() && result->bytes > 0) {
      if (fault.corrupt) {
        const uint64_t bit = fault.dice % (uint64_t{result->bytes} * 8);
        into[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      }
      if (fault.truncate) result->bytes = fault.dice % result->bytes;
    }
    done(std::move(result));
  };
  const Deadline deadline = options.deadline;
  pass_on<GetResult>(fault, deadline, std::move(spoilt),
                     [this, key = std::move(key), offset, into,
                      options = std::move(options)](Done<GetResult> answer) {
                       inner_->async_get(key, offset, into, options, std::move(answer));
                     });
}

void FaultyStore::async_put(std::string key, std::span<const std::byte> bytes, PutOptions options,
                            Done<ObjectInfo> done) {
  const Deadline deadline = options.deadline;
  pass_on<ObjectInfo>(
      draw(CallKind::kPut), deadline, std::move(done),
      [this, key = std::move(key), bytes, options = std::move(options)](Done<ObjectInfo> answer) {
        inner_->async_put(key, bytes, options, std::move(answer));
      });
}

void FaultyStore::async_head(std::string key, CallOptions options, Done<ObjectInfo> done) {
  const Deadline deadline = options.deadline;
  pass_on<ObjectInfo>(
      draw(CallKind::kHead), deadline, std::move(done),
      [this, key = std::move(key), options = std::move(options)](Done<ObjectInfo> answer) {
        inner_->async_head(key, options, std::move(answer));
      });
}

void FaultyStore::async_list(ListOptions options, Done<ListPage> done) {
  const Deadline deadline = options.deadline;
  pass_on<ListPage>(draw(CallKind::kList), deadline, std::move(done),
                    [this, options = std::move(options)](Done<ListPage> answer) {
                      inner_->async_list(options, std::move(answer));
                    });
}

void FaultyStore::async_remove(std::vector<std::string> keys, CallOptions options,
                               Done<std::vector<RemoveFailure>> done) {
  const Deadline deadline = options.deadline;
  pass_on<std::vector<RemoveFailure>>(draw(CallKind::kRemove), deadline, std::move(done),
                                      [this, keys = std::move(keys), options = std::move(options)](
                                          Done<std::vector<RemoveFailure>> answer) {
                                        inner_->async_remove(keys, options, std::move(answer));
                                      });
}

void FaultyStore::async_copy(std::string from, std::string to, CallOptions options,
                             Done<ObjectInfo> done) {
  const Deadline deadline = options.deadline;
  pass_on<ObjectInfo>(
      draw(CallKind::kCopy), deadline, std::move(done),
      [this, from = std::move(from), to = std::move(to), options = std::move(options)](
          Done<ObjectInfo> answer) { inner_->async_copy(from, to, options, std::move(answer)); });
}

void FaultyStore::async_flush(CallOptions options, Done<void> done) {
  const Deadline deadline = options.deadline;
  pass_on<void>(draw(CallKind::kFlush), deadline, std::move(done),
                [this, options = std::move(options)](Done<void> answer) {
                  inner_->async_flush(options, std::move(answer));
                });
}

Result<std::unique_ptr<Upload>> FaultyStore::start_upload(std::string key, PutOptions options) {
  const Deadline deadline = options.deadline;
  std::unique_ptr<Upload> upload = PENSTOCK_TRY(pass_on_blocking<std::unique_ptr<Upload>>(
      CallKind::kUpload, deadline, [&] { return inner_->start_upload(key, options); }));
  return std::unique_ptr<Upload>(
      std::make_unique<FaultyUpload>(*this, std::move(upload), deadline));
}

}  // namespace penstock::store
