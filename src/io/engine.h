// What moves bytes for the local file system: io_uring rings, or a pool of threads. The engine
// knows system calls only; whole transfers, alignment and errors are made of them in transfer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::io {

// A file's place in each ring's table of registered files. Entry i is touched by ring i's thread
// only.
struct FixedFile {
  uint32_t uses = 0;
  int32_t slot = -1;
};
using FixedFiles = std::vector<FixedFile>;

// One system call. Owned by the caller; in the engine's hands, untouched by others, until
// `complete` is called.
struct RawOp {
  enum class Kind : uint8_t { kNop, kRead, kWrite, kSync, kDataSync };
  Kind kind = Kind::kNop;
  int fd = -1;
  uint32_t size = 0;
  std::byte* data = nullptr;
  uint64_t offset = 0;
  int rw_flags = 0;
  uint32_t region = 0;
  FixedFiles* fixed = nullptr;  // Null: not worth registering.
  // With the call's return value or -errno, on an engine thread. May free the op; may submit.
  void (*complete)(RawOp& op, int result) = nullptr;
  RawOp* next = nullptr;
};

// A first-in-first-out list through RawOp::next.
class RawOpList {
 public:
  void push(RawOp* op) {
    op->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = op;
    tail_ = op;
    ++size_;
  }
  RawOp* pop() {
    RawOp* op = head_;
    head_ = op->next;
    --size_;
    return op;
  }
  bool empty() const { return head_ == nullptr; }
  size_t size() const { return size_; }

 private:
  RawOp* head_ = nullptr;
  RawOp* tail_ = nullptr;
  size_t size_ = 0;
};

// Threads: all calls from any thread. The destructor finishes what was submitted.
class Engine : public MemoryRegistrar {
 public:
  // Waits while the queue is full, unless called on one of this engine's threads.
  virtual void submit(RawOpList ops) = 0;
  // Drops what the engine keeps about a file that is about to be closed and has nothing in flight.
  virtual void forget(FixedFiles& files) = 0;
  // How many entries FixedFiles needs; 0 when files are not registered.
  virtual size_t rings() const = 0;
  virtual EngineKind kind() const = 0;
  virtual std::string description() const = 0;
};

// kUnsupported when the kernel or the container refuses io_uring.
Result<std::unique_ptr<Engine>> make_uring_engine(const LocalOptions& options);
std::unique_ptr<Engine> make_thread_engine(const LocalOptions& options);

// The operation as a blocking system call: its return value, or -errno.
int run_blocking(const RawOp& op);

}  // namespace penstock::io
