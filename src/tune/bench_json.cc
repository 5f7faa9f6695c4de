#include <nlohmann/json.hpp>

#include "tune/bench_render.h"

namespace penstock::tune {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;  // Goes up when a field changes its meaning or goes away.

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json machine_json(const BenchFacts& facts) {
  return {{"kernel", facts.kernel},
          {"cpu", facts.cpu},
          {"cores", facts.cores},
          {"memory_bytes", facts.memory_bytes},
          {"load_average", facts.load_average}};
}

Json target_json(const BenchFacts& facts) {
  return {{"address", facts.target},
          {"kind", bench_target_name(facts.kind)},
          {"engine", text_or_null(facts.engine)},
          {"file_system", text_or_null(facts.file_system)},
          {"mount_point", text_or_null(facts.mount_point)},
          {"mount_options", text_or_null(facts.mount_options)},
          {"device", text_or_null(facts.device)},
          {"device_model", text_or_null(facts.device_model)},
          {"rotational", facts.rotational},
          {"scheduler", text_or_null(facts.scheduler)},
          {"total_bytes", facts.total_bytes},
          {"available_bytes", facts.available_bytes},
          {"has_holes", facts.has_holes}};
}

Json rate_json(const CaseResult& result) {
  Json samples = Json::array();
  for (const RateSample& sample : result.rate) {
    samples.push_back({{"begin_seconds", sample.begin_seconds},
                       {"seconds", sample.seconds},
                       {"bytes", sample.bytes},
                       {"ops", sample.ops}});
  }
  return samples;
}

Json result_json(const CaseResult& result) {
  const BenchCase& c = result.bench_case;
  const bool on_file = !c.on_objects();
  Json json = {{"label", bench_case_label(c)},
               {"op", bench_op_name(c.op)},
               {"pattern", bench_pattern_name(c.pattern)},
               {"mode", on_file ? Json(bench_mode_name(c.mode)) : Json(nullptr)},
               {"cache", on_file ? Json(bench_cache_name(c.cache)) : Json(nullptr)},
               {"block_bytes", c.block_bytes},
               {"depth", c.depth},
               {"jobs", c.jobs},
               {"new_file", c.lays_file},
               {"skipped", text_or_null(result.skipped)}};
  if (!result.measured()) return json;
  json.update({{"bytes", result.bytes},
               {"ops", result.ops},
               {"seconds", result.seconds},
               {"throughput_bytes_per_second", result.bytes_per_second()},
               {"ops_per_second", result.ops_per_second()},
               {"cpu_seconds", result.cpu_seconds},
               {"latency_mean_ns", result.latency.mean_ns},
               {"latency_p50_ns", result.latency.p50_ns},
               {"latency_p90_ns", result.latency.p90_ns},
               {"latency_p99_ns", result.latency.p99_ns},
               {"latency_p999_ns", result.latency.p999_ns},
               {"latency_max_ns", result.latency.max_ns},
               {"rate_over_time", rate_json(result)}});
  return json;
}

}  // namespace

std::string render_bench_json(const BenchReport& report) {
  Json results = Json::array();
  for (const CaseResult& result : report.results) results.push_back(result_json(result));
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back(
        {{"id", finding.id}, {"text", finding.text}, {"advice", text_or_null(finding.advice)}});
  }
  const Json json = {{"schema", kSchema},
                     {"penstock_version", report.facts.version},
                     {"date", report.facts.date},
                     {"interrupted", report.interrupted},
                     {"error", text_or_null(report.error)},
                     {"machine", machine_json(report.facts)},
                     {"target", target_json(report.facts)},
                     {"options",
                      {{"profile", bench_profile_name(report.profile)},
                       {"size_bytes", report.size_bytes},
                       {"case_seconds", report.case_seconds}}},
                     {"results", results},
                     {"findings", findings}};
  // Paths are bytes: what is not UTF-8 is replaced rather than thrown about.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::tune
