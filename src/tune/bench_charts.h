// Plots as inline SVG and HTML, for the report page. Colours come from the page's style sheet.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tune {

// `text` for the inside of an element or a quoted attribute; bytes that XML does not allow become
// U+FFFD.
std::string html_escape(std::string_view text);

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string tip;  // Shown when pointed at.
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // Sorted by x.
};

enum class ChartScale { kLinear, kLog };

struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_title;
  std::string y_title;
  ChartScale x_scale = ChartScale::kLinear;
  ChartScale y_scale = ChartScale::kLinear;
  std::vector<double> x_ticks;  // Empty: chosen.
  std::function<std::string(double)> x_label;
  std::function<std::string(double)> y_label;
  std::vector<ChartSeries> series;
  bool filled = false;  // The area below the lines, for one series over time.
};

struct Bar {
  std::string name;
  double value = 0;
  std::string text;  // The value, for people.
  std::string tip;
};

struct BarChart {
  std::string title;
  std::string subtitle;
  std::vector<Bar> bars;
};

// A card with the chart; empty when there is nothing to draw. Values on a logarithmic scale are
// above 0.
std::string render_line_chart(const LineChart& chart);
std::string render_bar_chart(const BarChart& chart);

// Round numbers that cover [low, high]: at most eight or so.
std::vector<double> linear_ticks(double low, double high);
// Powers of ten, with 2 and 5 times them where the range is short.
std::vector<double> log_ticks(double low, double high);

}  // namespace penstock::tune
