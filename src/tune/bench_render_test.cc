#include "tune/bench_render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <set>

#include "tune/bench_charts.h"
#include "tune/bench_findings.h"
#include "tune/bench_test_support.h"

namespace penstock::tune {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

BenchReport sample_report() {
  BenchReport report;
  report.facts = {.version = "0.1.0",
                  .date = "2026-01-31T12:00:00Z",
                  .kernel = "6.14.0",
                  .cpu = "A CPU",
                  .cores = 8,
                  .memory_bytes = 64 * kGiB,
                  .engine = "io_uring, 1 ring, depth 256",
                  .target = "/data/<b>&\"x\"",
                  .file_system = "ext4",
                  .mount_point = "/data",
                  .mount_options = "rw,noatime",
                  .device = "/dev/nvme0n1",
                  .device_model = "Fast & Sons",
                  .scheduler = "none",
                  .total_bytes = kTiB,
                  .available_bytes = 500 * kGiB};
  report.size_bytes = kGiB;
  report.case_seconds = 0.7;
  CaseResult laid = made_result(sequential(BenchOp::kWrite, BenchMode::kDirect), 2000);
  laid.bench_case.lays_file = true;
  laid.rate = made_samples({2000, 1900, 2100, 2000});
  report.results = {
      laid,
      made_result(sequential(BenchOp::kRead, BenchMode::kDirect), 2800),
      made_result(sequential(BenchOp::kRead, BenchMode::kBuffered, BenchCache::kCold), 1800),
      made_result(random_read(1), 10'000),
      made_result(random_read(8), 70'000),
      made_result(random_read(32), 135'000),
      made_result(random_read(64), 136'000)};
  CaseResult skipped;
  skipped.bench_case = sequential(BenchOp::kRead, BenchMode::kUncached, BenchCache::kCold);
  skipped.skipped = "the kernel is <too> old";
  report.results.push_back(skipped);
  report.findings = find_findings(report.results);
  return report;
}

TEST(BenchTable, HasEveryCaseAndFinding) {
  const std::string table = render_bench_table(sample_report());
  for (const char* text :
       {"ext4 on /dev/nvme0n1 (Fast & Sons)", "Sequential write", "direct, new file", "Random read",
        "135 k", "2.94 GB/s", "not measured: the kernel is <too> old", "What this says",
        "saturate the device at depth 32"}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
  EXPECT_THAT(table, Not(HasSubstr("Interrupted")));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 130U) << line;
}

TEST(BenchTable, ColumnsLineUpUnderLongNames) {
  BenchReport report;
  const BenchCase overwrite{.op = BenchOp::kWriteDataSync, .mode = BenchMode::kDirect};
  BenchCase append = overwrite;
  append.op = BenchOp::kWriteSync;
  append.pattern = BenchPattern::kAppend;
  report.results = {made_result(overwrite, 1000), made_result(append, 1000)};
  std::istringstream lines(render_bench_table(report));
  std::set<size_t> lengths;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("direct") != std::string::npos) lengths.insert(line.size());
    if (line.starts_with("Durable")) lengths.insert(line.size());
  }
  EXPECT_EQ(lengths.size(), 1U);
}

TEST(BenchTable, ShowsNoControlCharacters) {
  BenchReport report = sample_report();
  const std::string hostile = "\033]0;x\a\r\nfake";
  report.facts.target = report.facts.device = report.facts.engine = report.error = hostile;
  report.results.back().skipped = hostile;
  report.findings.push_back({"id", hostile, hostile});
  const std::string table = render_bench_table(report);
  EXPECT_EQ(table.find_first_of("\033\a\r"), std::string::npos);
  EXPECT_THAT(table, AllOf(HasSubstr("\\x1b]0;x"), Not(HasSubstr("\nfake"))));
}

TEST(BenchTable, SaysWhenItEndedEarly) {
  BenchReport report = sample_report();
  report.interrupted = true;
  report.error = "disk on fire";
  EXPECT_THAT(render_bench_table(report),
              AllOf(HasSubstr("Interrupted"), HasSubstr("disk on fire")));
}

TEST(BenchTable, SaysWhenTheMachineWasBusy) {
  BenchReport report = sample_report();
  report.facts.load_average = 2;
  EXPECT_THAT(render_bench_table(report), Not(HasSubstr("busy")));
  report.facts.load_average = 6;
  EXPECT_THAT(render_bench_table(report), HasSubstr("busy before the run (load 6.0 on 8 cores)"));
  EXPECT_THAT(render_bench_html(report), HasSubstr("busy before the run"));
}

TEST(BenchJson, HasTheDocumentedFieldsWithUnits) {
  const auto json = nlohmann::json::parse(render_bench_json(sample_report()));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["interrupted"], false);
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_EQ(json["target"]["address"], "/data/<b>&\"x\"");
  EXPECT_EQ(json["target"]["kind"], "directory");
  EXPECT_EQ(json["options"]["size_bytes"], kGiB);
  EXPECT_EQ(json["machine"]["cores"], 8);
  ASSERT_EQ(json["results"].size(), 8U);
  const auto& laid = json["results"][0];
  EXPECT_EQ(laid["op"], "write");
  EXPECT_EQ(laid["new_file"], true);
  EXPECT_DOUBLE_EQ(laid["throughput_bytes_per_second"], 2000.0 * kMiB);
  EXPECT_EQ(laid["latency_p99_ns"], 300'000);
  EXPECT_EQ(laid["rate_over_time"].size(), 4U);
  EXPECT_TRUE(laid["skipped"].is_null());
  const auto& skipped = json["results"][7];
  EXPECT_EQ(skipped["skipped"], "the kernel is <too> old");
  EXPECT_FALSE(skipped.contains("bytes"));
  EXPECT_FALSE(json["findings"].empty());
}

TEST(BenchJson, SurvivesNamesThatAreNotUtf8) {
  BenchReport report = sample_report();
  report.facts.target = "/data/\xff\xfe";
  EXPECT_TRUE(nlohmann::json::accept(render_bench_json(report)));
}

pugi::xml_document parse(const std::string& html) {
  pugi::xml_document document;
  const auto parsed =
      document.load_buffer(html.data(), html.size(), pugi::parse_default | pugi::parse_doctype);
  EXPECT_TRUE(parsed) << parsed.description() << " at " << html.substr(parsed.offset, 100);
  return document;
}

TEST(BenchHtml, IsWellFormedAndComplete) {
  const std::string html = render_bench_html(sample_report());
  const pugi::xml_document document = parse(html);
  EXPECT_EQ(std::string(document.select_node("//header/h1").node().last_child().value()),
            "/data/<b>&\"x\"");
  EXPECT_GE(document.select_nodes("//svg").size(), 3U);
  EXPECT_GE(document.select_nodes("//div[@class='legend']/span").size(), 3U);
  EXPECT_EQ(document.select_nodes("//tbody/tr[not(@class)]").size(), 8U);
  EXPECT_EQ(document.select_nodes("//ul[@class='findings']/li").size(),
            sample_report().findings.size());
  EXPECT_GE(document.select_nodes("//div[@class='tile']").size(), 3U);
}

TEST(BenchHtml, LoadsNothingFromAnywhere) {
  const std::string html = render_bench_html(sample_report());
  for (const char* text : {"http:", "https:", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(text)));
  }
}

TEST(BenchHtml, AnEmptyOrHostileReportIsStillWellFormed) {
  parse(render_bench_html({}));
  BenchReport report = sample_report();
  report.facts.target = "\x01\xff</title><script>alert(1)</script>\0'"s;
  report.error = "]]> <!-- & --> \xed\xa0\x80";
  report.interrupted = true;
  const std::string html = render_bench_html(report);
  parse(html);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
}

TEST(BenchHtml, ZerosDoNotBreakThePlots) {
  BenchReport report = sample_report();
  for (CaseResult& result : report.results) {
    result.ops = result.bytes = 0;
    result.seconds = 0;
    result.latency = {};
    for (RateSample& sample : result.rate) sample.bytes = 0;
  }
  const std::string html = render_bench_html(report);
  parse(html);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf "))));
}

TEST(HtmlEscape, EscapesWhatMatters) {
  EXPECT_EQ(html_escape("a<b>&\"'\n\xc3\xa4"), "a&lt;b&gt;&amp;&quot;&#39;&#10;\xc3\xa4");
  EXPECT_EQ(html_escape("\x02\xc0\x80\xf5"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(html_escape("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ChartTicks, CoverTheDataWithRoundNumbers) {
  EXPECT_EQ(linear_ticks(0, 2.8), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(log_ticks(900, 150'000), (std::vector<double>{100, 1000, 10'000, 100'000, 1'000'000}));
  EXPECT_EQ(log_ticks(15, 90), (std::vector<double>{10, 20, 50, 100}));
  for (const double high : {0.001, 1.0, 7.3, 99.9, 12'345.0}) {
    const auto ticks = linear_ticks(0, high);
    EXPECT_GE(ticks.back(), high);
    EXPECT_LE(ticks.size(), 9U);
    const auto logs = log_ticks(high / 3, high);
    EXPECT_LE(logs.front(), high / 3);
    EXPECT_GE(logs.back(), high);
  }
}

}  // namespace
}  // namespace penstock::tune
