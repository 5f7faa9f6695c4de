#include "mount/request_metrics.h"

#include <cerrno>
#include <string>

namespace penstock::mount {

namespace {

constexpr std::pair<int, const char*> kErrors[] = {
    {EPERM, "EPERM"},         {ENOENT, "ENOENT"},
    {EINTR, "EINTR"},         {EIO, "EIO"},
    {ENOMEM, "ENOMEM"},       {EACCES, "EACCES"},
    {EBUSY, "EBUSY"},         {EEXIST, "EEXIST"},
    {EXDEV, "EXDEV"},         {ENOTDIR, "ENOTDIR"},
    {EISDIR, "EISDIR"},       {EINVAL, "EINVAL"},
    {EFBIG, "EFBIG"},         {ENOSPC, "ENOSPC"},
    {EROFS, "EROFS"},         {EMLINK, "EMLINK"},
    {ERANGE, "ERANGE"},       {ENAMETOOLONG, "ENAMETOOLONG"},
    {ENOTEMPTY, "ENOTEMPTY"}, {ENODATA, "ENODATA"},
    {ESTALE, "ESTALE"},       {EOPNOTSUPP, "EOPNOTSUPP"},
    {ENXIO, "ENXIO"},         {EDQUOT, "EDQUOT"},
};

Counter& errors(const char* name) {
  return Metrics::global().counter("penstock_mount_errors_total", "requests answered with an error",
                                   {{"error", name}});
}

Histogram& request_seconds(const char* group) {
  return Metrics::global().histogram("penstock_mount_request_seconds",
                                     "time from a request of the kernel to the answer",
                                     {{"request", group}});
}

}  // namespace

RequestMetrics::RequestMetrics()
    : read_bytes(Metrics::global().counter("penstock_mount_read_bytes_total",
                                           "bytes that programs read through the mount")),
      written_bytes(Metrics::global().counter("penstock_mount_written_bytes_total",
                                              "bytes that programs wrote through the mount")),
      slow(Metrics::global().counter("penstock_mount_slow_requests_total",
                                     "requests that took longer than --slow-request")),
      slow_now(Metrics::global().gauge("penstock_mount_slow_requests",
                                       "requests not answered yet after --slow-request")) {
  seconds_.fill(&request_seconds(kOtherRequests));
  for (const RequestKind& kind : request_kinds()) {
    seconds_[kind.opcode] = &request_seconds(kind.group);
  }
  errors_.fill(&errors(kOtherRequests));
  for (const auto& [number, name] : kErrors) errors_[static_cast<size_t>(number)] = &errors(name);
  errors_[ENOSYS] = nullptr;
}

void RequestMetrics::count_error(int number) {
  const auto index = static_cast<size_t>(number);
  Counter* const counter = errors_[index < kErrnosMax ? index : 0];
  if (counter != nullptr) counter->add();
}

}  // namespace penstock::mount
