// A report for people, for programs and for the browser. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/bench_result.h"

namespace penstock::tune {

// For the terminal: facts, a table of all cases by section, findings.
std::string render_bench_table(const BenchReport& report);

// docs/BENCH.md gives the schema.
std::string render_bench_json(const BenchReport& report);

// One page with everything in it, well-formed as XML too. Nothing is loaded from anywhere.
std::string render_bench_html(const BenchReport& report);

inline std::string time_text(int64_t ns) {
  return format_duration(Nanoseconds(ns));
}
// "Random read", "Small files": the heading under which a case is shown.
std::string_view bench_section(const BenchCase& bench_case);
// What tells a case from others of its section, block size and depth aside: "direct, new file".
std::string bench_variant(const BenchCase& bench_case);
// "ext4 on /dev/vda, QEMU HARDDISK": one line about what was measured.
std::string describe_target(const BenchFacts& facts);

// What the reader must know before the numbers: that the run ended early, or that the machine was
// busy with something else.
std::vector<std::string> bench_notices(const BenchReport& report);

}  // namespace penstock::tune
