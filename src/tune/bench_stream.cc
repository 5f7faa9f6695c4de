#include "tune/bench_stream.h"

#include <fmt/core.h>

#include <cstring>
#include <limits>
#include <system_error>

#include "base/thread_pool.h"

namespace penstock::tune {

namespace {

using Clock = std::chrono::steady_clock;

uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

void fill_incompressible(std::span<std::byte> memory, uint64_t seed) {
  for (size_t i = 0; i < memory.size(); i += sizeof(uint64_t)) {
    const uint64_t word = mix(seed + i);
    std::memcpy(memory.data() + i, &word, std::min(sizeof(word), memory.size() - i));
  }
}

void stamp_block(std::span<std::byte> block, uint64_t stamp) {
  for (size_t i = 0; i + sizeof(uint64_t) <= block.size(); i += 4096) {
    const uint64_t word = mix(stamp + i);
    std::memcpy(block.data() + i, &word, sizeof(word));
  }
}

// Notifies under the lock: the waiter may destroy the stream as soon as it can take it.
void StreamEnd::retire(Deadline now) {
  std::lock_guard lock(mutex_);
  finished_at_ = std::max(finished_at_, now);
  if (--active_ == 0) ended_.notify_all();
}

void StreamEnd::fail(Error error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

bool StreamEnd::wait_until(Deadline time) {
  std::unique_lock lock(mutex_);
  if (time == kNoDeadline) return ended_.wait(lock, [this] { return active_ == 0; }), true;
  return ended_.wait_until(lock, time, [this] { return active_ == 0; });
}

Deadline StreamEnd::finished_at() const {
  std::lock_guard lock(mutex_);
  return finished_at_;
}

std::optional<Error> StreamEnd::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

FileStream::FileStream(io::File& file, const FileStreamOptions& options,
                       const io::MemorySlice& memory)
    : file_(file),
      options_(options),
      blocks_(options.span / options.block_bytes),
      ticket_limit_(options.limit_bytes == 0 ? std::numeric_limits<uint64_t>::max()
                                             : options.limit_bytes / options.block_bytes),
      slots_(options.depth) {
  assert(blocks_ > 0 && memory.size >= options.depth * options.block_bytes);
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].stream = this;
    slots_[i].memory = {memory.data + i * options.block_bytes, options.block_bytes, memory.region};
    slots_[i].picker = BlockPicker(mix(options.seed * 4096 + i));
  }
}

void FileStream::start(Deadline end) {
  deadline_ = end;
  end_.arm(slots_.size() + 1);  // One more for this function, which must not be overtaken.
  std::vector<io::IoRequest> requests;
  requests.reserve(slots_.size());
  const Deadline now = Clock::now();
  for (Slot& slot : slots_) {
    io::IoRequest request;
    if (next_request(slot, now, request)) {
      requests.push_back(std::move(request));
    } else {
      end_.retire(now);
    }
  }
  if (!requests.empty()) file_.submit(requests);
  end_.retire(now);
}

bool FileStream::next_request(Slot& slot, Deadline now, io::IoRequest& request) {
  if (now >= deadline_ || stopped_.load(std::memory_order_relaxed)) return false;
  const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_relaxed);
  if (ticket >= ticket_limit_) return false;
  const uint64_t block = options_.random ? slot.picker.next(blocks_) : ticket % blocks_;
  if (options_.write)
    stamp_block({slot.memory.data, slot.memory.size}, ticket ^ options_.seed << 40);
  slot.started = now;
  request.kind = options_.write ? io::IoRequest::Kind::kWrite : io::IoRequest::Kind::kRead;
  request.offset = options_.begin + block * options_.block_bytes;
  request.memory = slot.memory;
  // One pointer: the function object allocates nothing.
  request.done = [self = &slot](Result<size_t> moved) { self->stream->complete(*self, moved); };
  return true;
}

void FileStream::complete(Slot& slot, const Result<size_t>& moved) {
  const Deadline now = Clock::now();
  if (!moved.ok()) {
    end_.fail(moved.error());
    stop();
  } else if (!options_.write && *moved < options_.block_bytes) {
    end_.fail(make_error(ErrorCode::kIo, "the file became shorter while it was read"));
    stop();
  } else {
    meter_.note(now - slot.started, options_.block_bytes);
  }
  io::IoRequest request;
  if (next_request(slot, now, request)) {
    file_.submit(std::span(&request, 1));
  } else {
    end_.retire(now);
  }
}

ThreadStream::~ThreadStream() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void ThreadStream::start(Deadline end) {
  end_.arm(1);
  try {
    thread_ = std::thread([this, end] {
      set_thread_name("bench");
      run(end);
    });
  } catch (const std::system_error& failed) {
    end_.fail(errno_error(failed.code().value(),
                          "start a thread (more jobs than the limit on processes, `ulimit -u` or "
                          "pids.max of the control group, or than memory allows)"));
    end_.retire(Clock::now());
  }
}

void ThreadStream::run(Deadline end) {
  Deadline now = Clock::now();
  for (uint64_t call = 0; calls_most_ == 0 || call < calls_most_; ++call) {
    // At least one call, however late the thread was started.
    if ((call > 0 && now >= end) || stopped_.load(std::memory_order_relaxed)) break;
    const Deadline started = now;
    const Result<uint64_t> moved = step_(call);
    now = Clock::now();
    if (!moved.ok()) {
      end_.fail(moved.error());
      break;
    }
    meter_.note(now - started, *moved);
  }
  end_.retire(now);
}

}  // namespace penstock::tune
