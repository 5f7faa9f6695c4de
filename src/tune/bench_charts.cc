#include "tune/bench_charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::tune {

namespace {

// The drawing's own units; the page scales it to the width there is.
constexpr double kWidth = 640;
constexpr double kHeight = 330;
constexpr double kLeft = 78;
constexpr double kRight = 18;
constexpr double kTop = 14;
constexpr double kBottom = 50;
constexpr size_t kColours = 8;  // The style sheet has as many.

// Maps values to the drawing.
struct Axis {
  ChartScale scale = ChartScale::kLinear;
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;

  double operator()(double value) const {
    const auto place = [this](double v) { return scale == ChartScale::kLog ? std::log(v) : v; };
    const double width = place(high) - place(low);
    const double part = width > 0 ? (place(value) - place(low)) / width : 0.5;
    return from + part * (to - from);
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Control characters are not allowed in XML, and what is not UTF-8 would end the parse.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what is above the last code point.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

std::string card_head(std::string_view kind, const std::string& title,
                      const std::string& subtitle) {
  std::string out =
      fmt::format("<figure class=\"{}\"><figcaption><h3>{}</h3>", kind, html_escape(title));
  if (!subtitle.empty()) out += fmt::format("<p>{}</p>", html_escape(subtitle));
  return out + "</figcaption>\n";
}

std::string legend(const std::vector<ChartSeries>& series) {
  std::string out = "<div class=\"legend\">";
  for (size_t i = 0; i < series.size(); ++i) {
    out += fmt::format("<span><i class=\"c{}\"></i>{}</span>", i % kColours,
                       html_escape(series[i].name));
  }
  return out + "</div>\n";
}

std::string x_axis(const LineChart& chart, const Axis& x, const std::vector<double>& ticks) {
  std::string out;
  const double bottom = kHeight - kBottom;
  for (const double tick : ticks) {
    out += fmt::format("<line class=\"tick\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>",
                       x(tick), bottom, bottom + 5);
    out +=
        fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    x(tick), bottom + 20, html_escape(chart.x_label(tick)));
  }
  out +=
      fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                  (kLeft + kWidth - kRight) / 2, kHeight - 8, html_escape(chart.x_title));
  return out;
}

std::string y_axis(const LineChart& chart, const Axis& y, const std::vector<double>& ticks) {
  std::string out;
  for (const double tick : ticks) {
    out += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>",
                       kLeft, kWidth - kRight, y(tick));
    out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                       kLeft - 8, y(tick) + 4, html_escape(chart.y_label(tick)));
  }
  return out + "\n";
}

std::string line_of(const ChartSeries& series, const Axis& x, const Axis& y, size_t colour,
                    bool filled) {
  std::string path;
  for (const ChartPoint& point : series.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
  }
  std::string out;
  if (filled) {
    const double bottom = kHeight - kBottom;
    out += fmt::format("<path class=\"area f{}\" d=\"{}L{:.1f} {}L{:.1f} {}Z\"/>", colour, path,
                       x(series.points.back().x), bottom, x(series.points.front().x), bottom);
  }
  out += fmt::format("<path class=\"line s{}\" d=\"{}\"/>", colour, path);
  const bool dots = series.points.size() <= 40;
  for (const ChartPoint& point : series.points) {
    if (dots) {
      out += fmt::format("<circle class=\"dot f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", colour,
                         x(point.x), y(point.y));
    }
    // A larger, invisible circle is easier to point at.
    out +=
        fmt::format("<circle class=\"hit\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"9\" data-tip=\"{}\"/>",
                    x(point.x), y(point.y), html_escape(point.tip));
  }
  return out + "\n";
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    switch (length == 0 ? '\0' : text[0]) {
      case '\0':
        out += "\xef\xbf\xbd";
        break;
      case '\n':
        out += "&#10;";  // Plain ones in attributes are lost to XML parsers.
        break;
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::vector<double> linear_ticks(double low, double high) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9) + 0.0;  // Not minus zero.
  for (double i = first; (i - 1e-9) * step < high; ++i) ticks.push_back(i * step);
  if (ticks.back() < high) ticks.push_back(ticks.back() + step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const bool short_range = high / low < 150;
  const double first = std::floor(std::log10(low) + 1e-9);
  const double last = std::ceil(std::log10(high) - 1e-9);
  for (double exponent = first; exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, exponent);
      if ((factor == 1.0 || short_range) && tick >= low * 0.999 / (short_range ? 2.5 : 10) &&
          tick <= high * 1.001 * (short_range ? 2.5 : 10)) {
        ticks.push_back(tick);
      }
    }
  }
  // One tick below and one above the data is enough.
  while (ticks.size() > 2 && ticks[1] <= low) ticks.erase(ticks.begin());
  while (ticks.size() > 2 && ticks[ticks.size() - 2] >= high) ticks.pop_back();
  return ticks;
}

std::string render_line_chart(const LineChart& chart) {
  Range x_range;
  Range y_range;
  std::vector<ChartSeries> drawn;
  for (const ChartSeries& series : chart.series) {
    if (series.points.empty()) continue;
    drawn.push_back(series);
    for (const ChartPoint& point : series.points) {
      x_range.include(point.x);
      y_range.include(point.y);
    }
  }
  if (drawn.empty()) return {};
  const bool log_y = chart.y_scale == ChartScale::kLog;
  const std::vector<double> y_ticks =
      log_y ? log_ticks(y_range.low, y_range.high) : linear_ticks(0, std::max(y_range.high, 1e-9));
  std::vector<double> x_ticks = chart.x_ticks;
  if (x_ticks.empty()) x_ticks = linear_ticks(x_range.low, x_range.high);
  for (const double tick : x_ticks) x_range.include(tick);
  const Axis x{chart.x_scale, x_range.low, x_range.high, kLeft + 12, kWidth - kRight - 12};
  const Axis y{chart.y_scale, y_ticks.front(), y_ticks.back(), kHeight - kBottom, kTop};

  std::string out = card_head("card", chart.title, chart.subtitle);
  if (!chart.filled) out += legend(drawn);
  out +=
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight,
                  html_escape(chart.title + ": " + chart.y_title + " by " + chart.x_title));
  out += y_axis(chart, y, y_ticks) + x_axis(chart, x, x_ticks);
  for (size_t i = 0; i < drawn.size(); ++i) {
    out += line_of(drawn[i], x, y, i % kColours, chart.filled);
  }
  return out + "</svg></figure>\n";
}

std::string render_bar_chart(const BarChart& chart) {
  double most = 0;
  for (const Bar& bar : chart.bars) most = std::max(most, bar.value);
  if (most <= 0) return {};
  std::string out = card_head("card flat", chart.title, chart.subtitle) + "<div class=\"bars\">\n";
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const Bar& bar = chart.bars[i];
    out += fmt::format(
        "<div class=\"bar\" data-tip=\"{}\"><span class=\"name\">{}</span><span class=\"track\">"
        "<i class=\"c{}\" style=\"width:{:.1f}%\"></i></span><span "
        "class=\"value\">{}</span></div>\n",
        html_escape(bar.tip), html_escape(bar.name), i % kColours, 100 * bar.value / most,
        html_escape(bar.text));
  }
  return out + "</div></figure>\n";
}

}  // namespace penstock::tune
