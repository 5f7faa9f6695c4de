// Memory, limits and the kernel.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "penstock/units.h"
#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

struct DirtyLimits {
  std::string observed;  // The settings in force.
  double limit_bytes = 0;
  bool fine = false;
};

// vm.dirty_bytes, when it is set, takes the place of the ratio.
std::optional<DirtyLimits> read_dirty_limits(const Machine& machine) {
  const auto ratio = machine.read_number("/proc/sys/vm/dirty_ratio");
  const auto background = machine.read_number("/proc/sys/vm/dirty_background_ratio");
  const uint64_t bytes = machine.read_number("/proc/sys/vm/dirty_bytes").value_or(0);
  const auto memory = static_cast<double>(memory_of(machine).total_bytes);
  const double good_ratio = threshold("dirty-pages", "ratio");
  if (!ratio || !background || memory == 0) return std::nullopt;
  if (bytes != 0) {
    const auto limit = static_cast<double>(bytes);
    return DirtyLimits{fmt::format("vm.dirty_bytes={}", bytes), limit,
                       limit <= memory * good_ratio / 100};
  }
  const auto percent = static_cast<double>(*ratio);
  const bool fine = percent <= good_ratio && static_cast<double>(*background) <=
                                                 threshold("dirty-pages", "background_ratio");
  return DirtyLimits{
      fmt::format("vm.dirty_ratio={}, vm.dirty_background_ratio={}", *ratio, *background),
      memory * percent / 100, fine};
}

// The kernel asks for CAP_IPC_LOCK in the first user namespace: in another one, whose root has all
// capabilities, it counts for nothing. A kernel without user namespaces has no such map.
bool in_first_user_namespace(const Machine& machine) {
  const Result<std::string> map = machine.read("/proc/self/uid_map");
  if (!map) return true;
  return split_words(*map) == std::vector<std::string_view>{"0", "0", "4294967295"};
}

// CAP_IPC_LOCK (bit 14) lifts the limit of locked memory.
bool may_lock_any_memory(const Machine& machine) {
  if (!in_first_user_namespace(machine)) return false;
  const std::string status = machine.read_or("/proc/self/status", "");
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with("CapEff:")) continue;
    const std::string_view digits = trim(line.substr(7));
    if (digits.size() < 4) return false;
    // The fourth hexadecimal digit from the right holds bits 12 to 15.
    const size_t digit = std::string_view("0123456789abcdef").find(digits[digits.size() - 4]);
    return digit != std::string_view::npos && (digit & 4) != 0;
  }
  return false;
}

bool is_enough_locked_memory(uint64_t bytes) {
  return static_cast<double>(bytes) >= threshold("memlock", "min");
}

std::string locked_memory_text(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : "ulimit -l is " + format_size(bytes);
}

Finding io_uring_switched_off(uint64_t disabled) {
  Finding finding = make_finding(
      "io-uring", Severity::kWarn, "",
      disabled == 1 ? "kernel.io_uring_disabled=1: only for root and kernel.io_uring_group"
                    : fmt::format("switched off: kernel.io_uring_disabled={}", disabled));
  finding.advice.clear();
  finding.commands.emplace_back("sysctl -w kernel.io_uring_disabled=0");
  finding.config.push_back(
      {"/etc/sysctl.d/60-penstock.conf", "kernel.io_uring_disabled = 0", "", false});
  return finding;
}

Finding io_uring_missing(const Machine& machine) {
  Finding finding = make_finding("io-uring", Severity::kWarn, "",
                                 "not there: an old kernel, or one built without it");
  const std::string kernel = machine.read_or("/proc/sys/kernel/osrelease", "");
  const auto version = parse_kernel_version(kernel);
  const bool old = version && !version->at_least(5, 6);
  finding.advice = old ? "Linux 5.6 or newer; this is " + kernel
                       : "A kernel built with CONFIG_IO_URING. In a container it may also be the "
                         "seccomp profile that hides it.";
  return finding;
}

// Kernels before 5.12 count a ring's memory as locked. Where that limit is not what is short, it is
// memory itself.
Finding io_uring_without_memory(const Machine& machine) {
  const auto limit = machine.facts().memlock_bytes;
  const bool enough = may_lock_any_memory(machine) || (limit && is_enough_locked_memory(*limit));
  Finding finding = make_finding("io-uring", Severity::kWarn, "", "no memory for a ring");
  if (enough) {
    finding.advice = "Free some memory, or raise the memory limit of the container.";
    return finding;
  }
  finding.observed = "no room for a ring under the limit of locked memory";
  if (limit) finding.observed += " (" + locked_memory_text(*limit) + ")";
  Finding memlock = make_finding("memlock", Severity::kWarn, "", "");
  finding.advice =
      "Raise the limit of locked memory, which kernels before 5.12 count rings "
      "against. " +
      memlock.advice;
  finding.config = std::move(memlock.config);
  return finding;
}

Finding io_uring_failed(const Machine& machine, int os_errno) {
  switch (os_errno) {
    case EPERM:
    case EACCES:
      return make_finding("io-uring", Severity::kWarn, "",
                          "refused: a container's filter (seccomp)");
    case ENOSYS:
      return io_uring_missing(machine);
    case ENOMEM:
      return io_uring_without_memory(machine);
    default:
      return make_unknown("io-uring", "", errno_error(os_errno, "io_uring_setup").detail);
  }
}

}  // namespace

Findings check_dirty_pages(const Machine& machine, const DoctorOptions& options) {
  const auto limits = read_dirty_limits(machine);
  if (!limits) return {make_unknown("dirty-pages", "", "no /proc/sys/vm/dirty_ratio")};
  std::string observed = fmt::format("{}: up to {} may sit unwritten", limits->observed,
                                     format_size(static_cast<uint64_t>(limits->limit_bytes)));
  if (options.checkpoint_bytes != 0) {
    const double share =
        std::min(1.0, limits->limit_bytes / static_cast<double>(options.checkpoint_bytes));
    observed += fmt::format(", {:.0f} % of a checkpoint", share * 100);
  }
  const bool serious =
      options.writes_checkpoints() || limits->limit_bytes > threshold("dirty-pages", "large");
  const Severity bad = serious ? Severity::kWarn : Severity::kInfo;
  return {make_finding("dirty-pages", limits->fine ? Severity::kOk : bad, "", observed)};
}

Findings check_writeback(const Machine& machine, const DoctorOptions&) {
  const auto samples = static_cast<uint64_t>(threshold("writeback", "samples"));
  const auto interval_ms = static_cast<uint64_t>(threshold("writeback", "interval"));
  uint64_t least = UINT64_MAX;
  for (uint64_t i = 0; i < samples; ++i) {
    if (i > 0) machine.facts().sleep(interval_ms);
    const Meminfo meminfo = parse_meminfo(machine.read_or("/proc/meminfo", ""));
    const auto writeback = meminfo.find("Writeback");
    if (writeback == meminfo.end())
      return {make_unknown("writeback", "", "no Writeback in /proc/meminfo")};
    least = std::min(least, writeback->second);
    if (least == 0) return {make_finding("writeback", Severity::kOk, "", "comes down to 0")};
  }
  const bool large = static_cast<double>(least) > threshold("writeback", "large");
  return {make_finding("writeback", large ? Severity::kWarn : Severity::kInfo, "",
                       fmt::format("never below {} in {} looks", format_size(least), samples))};
}

Findings check_page_cache(const Machine& machine, const DoctorOptions& options) {
  if (options.dataset_bytes == 0) return {};
  const MemoryView memory = memory_of(machine);
  if (memory.total_bytes == 0) return {make_unknown("page-cache", "", "no /proc/meminfo")};
  const uint64_t free_bytes = std::min(memory.available_bytes, memory.usable_bytes());
  const double usable = static_cast<double>(free_bytes) * threshold("page-cache", "usable") / 100;
  const bool fits = static_cast<double>(options.dataset_bytes) <= usable;
  return {make_finding("page-cache", fits ? Severity::kOk : Severity::kInfo, "",
                       fmt::format("{} of data, {} of memory to cache it",
                                   format_size(options.dataset_bytes), format_size(free_bytes)))};
}

Findings check_cgroup(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  const MemoryView memory = memory_of(machine);
  if (memory.limit_bytes) {
    const bool tight = options.dataset_bytes > *memory.limit_bytes ||
                       options.checkpoint_bytes > *memory.limit_bytes;
    findings.push_back(
        make_finding("cgroup-memory", tight ? Severity::kWarn : Severity::kInfo, "",
                     fmt::format("{} of the machine's {}", format_size(*memory.limit_bytes),
                                 format_size(memory.total_bytes))));
  }
  const auto pids = cgroup_limit(machine, "pids", "pids.max", "pids.max");
  if (pids) {
    const bool few = static_cast<double>(*pids) < threshold("cgroup-pids", "min");
    findings.push_back(make_finding("cgroup-pids", few ? Severity::kWarn : Severity::kOk, "",
                                    fmt::format("at most {} processes and threads", *pids)));
  }
  return findings;
}

Findings check_memlock(const Machine& machine, const DoctorOptions&) {
  if (may_lock_any_memory(machine))
    return {make_finding("memlock", Severity::kOk, "", "no limit for this user (CAP_IPC_LOCK)")};
  const auto limit = machine.facts().memlock_bytes;
  if (!limit) return {make_unknown("memlock", "", "the limit is not known")};
  return {make_finding("memlock", is_enough_locked_memory(*limit) ? Severity::kOk : Severity::kWarn,
                       "", locked_memory_text(*limit))};
}

Findings check_io_uring(const Machine& machine, const DoctorOptions&) {
  const uint64_t disabled = machine.read_number("/proc/sys/kernel/io_uring_disabled").value_or(0);
  const auto os_errno = machine.facts().io_uring_errno;
  // Set to 1 it still works for root, who runs this, and not for the user who trains.
  if (disabled != 0) return {io_uring_switched_off(disabled)};
  if (!os_errno) return {make_unknown("io-uring", "", "not tried")};
  if (*os_errno == 0) return {make_finding("io-uring", Severity::kOk, "", "allowed")};
  return {io_uring_failed(machine, *os_errno)};
}

}  // namespace penstock::tune::doctor
