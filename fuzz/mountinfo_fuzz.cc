// Every parser of foreign text that `penstock doctor` has, over arbitrary bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tune/mount_table.h"
#include "tune/system_text.h"
#include "tune/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::tune::doctor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Mount& mount : parse_mountinfo(text)) {
    // A mount holds its own mount point, so one must be found for it.
    if (find_mount({mount}, mount.point) == nullptr) std::abort();
    (void)mount.option_number("rsize");
  }
  for (const FstabEntry& entry : parse_fstab(text)) merge_options(entry.options, {"noatime"});
  if (octal_unescape(octal_escape(text)) != text) std::abort();
  for (const char c : shell_quote(text)) {
    if (c == '\n') std::abort();
  }
  parse_meminfo(text);
  parse_mdstat(text);
  parse_scheduler(text);
  parse_link_speed_gt(text);
  parse_striping(text);
  parse_cgroup(text, "memory");
  parse_kernel_version(text);
  parse_nvme_health(std::as_bytes(std::span(data, size)));
  fill_template(text, {{"a", "b"}});
  return 0;
}
