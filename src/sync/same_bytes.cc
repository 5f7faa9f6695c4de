#include "sync/same_bytes.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>

#include "store/aws_sigv4.h"

namespace penstock::sync {

namespace {

// An object read from its beginning to its end, in steps, of one version.
class Reader {
 public:
  Reader(Context& context, store::ObjectStore& store, const std::string& key, uint64_t size)
      : context_(context), store_(store), key_(key), size_(size) {}

  // The next bytes; none at the end.
  Result<std::span<const std::byte>> next(std::span<std::byte> into) {
    if (offset_ == size_) return std::span<const std::byte>();
    into = into.first(std::min<uint64_t>(into.size(), size_ - offset_));
    PENSTOCK_TRY(context_.limiter.acquire(static_cast<double>(into.size()), kNoDeadline,
                                          context_.options.stop));
    auto options = context_.call<store::GetOptions>();
    options.if_match = etag_;
    store::GetResult got = PENSTOCK_TRY(store_.get(key_, offset_, into, std::move(options)));
    if (got.bytes != into.size() || got.info.size != size_) {
      return make_error(ErrorCode::kChanged, "'" + key_ + "' changed while it was compared", true);
    }
    etag_ = std::move(got.info.etag);
    offset_ += got.bytes;
    return std::span<const std::byte>(into);
  }

 private:
  Context& context_;
  store::ObjectStore& store_;
  const std::string& key_;
  const uint64_t size_;
  uint64_t offset_ = 0;
  std::string etag_;
};

Result<std::string> md5_of(Reader reader, std::span<std::byte> buffer) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::array<uint8_t, 16> digest;
  bool fine = context && EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) == 1;
  while (fine) {
    const std::span<const std::byte> bytes = PENSTOCK_TRY(reader.next(buffer));
    if (bytes.empty()) break;
    fine = EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
  }
  fine = fine && EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  if (!fine) return make_error(ErrorCode::kUnsupported, "OpenSSL cannot compute an MD5 here");
  return store::to_hex(digest);
}

Result<bool> same_by_reading(Reader a, Reader b, std::span<std::byte> buffer) {
  const std::span<std::byte> first = buffer.first(buffer.size() / 2);
  const std::span<std::byte> second = buffer.subspan(buffer.size() / 2, first.size());
  while (true) {
    const std::span<const std::byte> of_a = PENSTOCK_TRY(a.next(first));
    const std::span<const std::byte> of_b = PENSTOCK_TRY(b.next(second));
    if (of_a.empty()) return true;
    if (std::memcmp(of_a.data(), of_b.data(), of_a.size()) != 0) return false;
  }
}

}  // namespace

Result<bool> same_bytes(Context& context, const CopyItem& item) {
  const uint64_t size = item.source.size;
  if (size == 0) return true;
  const io::Buffer buffer = PENSTOCK_TRY(context.buffers->take(
      2 * std::min(context.range_bytes, size), kNoDeadline, context.options.stop));
  const Reader source(context, *context.from.store, item.key, size);
  const Reader target(context, *context.to.store, item.to, size);
  const std::string_view source_md5 = md5_in_etag(item.source.etag);
  const std::string_view target_md5 = md5_in_etag(item.there->etag);
  // Of two objects in S3 equal etags were seen to be equal before.
  if (!source_md5.empty() && !target_md5.empty()) return false;
  if (source_md5.empty() && target_md5.empty()) {
    return same_by_reading(source, target, buffer.bytes());
  }
  const bool keeps_md5 = target_md5.empty();  // The source does.
  const std::string md5 = PENSTOCK_TRY(md5_of(keeps_md5 ? target : source, buffer.bytes()));
  return md5 == (keeps_md5 ? source_md5 : target_md5);
}

}  // namespace penstock::sync
