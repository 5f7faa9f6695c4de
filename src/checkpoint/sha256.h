// SHA-256 of bytes that come one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace penstock::checkpoint {

// Threads: one at a time.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  // 64 hexadecimal digits. Nothing can be added after it.
  std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace penstock::checkpoint
