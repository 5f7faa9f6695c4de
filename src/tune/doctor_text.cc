// The report for people.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "penstock/units.h"
#include "tune/doctor.h"

namespace penstock::tune::doctor {

namespace {

constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kDim = "\033[2m";
constexpr size_t kIndent = 7;      // Of a finding's body.
constexpr size_t kLabelWidth = 6;  // "look  "
constexpr size_t kUsualColumns = 90;
constexpr size_t kFewestColumns = 40;
constexpr size_t kFewestForTwo = 64;  // Below, what stands side by side goes on lines of its own.

// Columns a text takes: continuation bytes of UTF-8 take none.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

class Painter {
 public:
  Painter(const TextStyle& style) : style_(style) {}

  std::string paint(std::string_view code, std::string_view text) const {
    return style_.colour ? fmt::format("{}{}{}", code, text, kReset) : std::string(text);
  }

  // Words broken over lines of the terminal's width, each starting after `indent` blanks; the first
  // line is expected to start there already.
  std::string wrap(std::string_view text, size_t indent) const {
    std::string wrapped;
    size_t column = indent;
    for (const std::string_view word : split_words(text)) {
      const size_t width = columns_of(word);
      if (column > indent && column + 1 + width > style_.columns) {
        wrapped += "\n" + std::string(indent, ' ');
        column = indent;
      } else if (column > indent) {
        wrapped += ' ';
        ++column;
      }
      wrapped += word;
      column += width;
    }
    return wrapped;
  }

  // Whether a text that starts at `column` ends within the terminal.
  bool fits(std::string_view text, size_t column) const {
    return column + columns_of(text) <= style_.columns;
  }
  bool is_narrow() const { return style_.columns < kFewestForTwo; }

 private:
  const TextStyle& style_;
};

std::string_view severity_colour(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "\033[1;31m";
    case Severity::kWarn:
      return "\033[1;33m";
    case Severity::kInfo:
      return "\033[1;36m";
    case Severity::kOk:
      return "\033[1;32m";
    case Severity::kUnknown:
      return "\033[1;35m";
  }
  return kBold;
}

std::string_view severity_label(Severity severity) {
  return severity == Severity::kError ? "ERROR" : severity == Severity::kWarn ? "WARN" : "NOTE";
}

void add_labelled(const Painter& painter, std::string_view label, std::string_view text,
                  std::string& out) {
  out += std::string(kIndent, ' ') + painter.paint(kDim, fmt::format("{:<{}}", label, kLabelWidth));
  out += std::string(text) + "\n";
}

// Commands are never broken: they are there to be copied.
void add_lines(const Painter& painter, std::string_view label,
               const std::vector<std::string>& lines, std::string& out) {
  for (size_t i = 0; i < lines.size(); ++i)
    add_labelled(painter, i == 0 ? label : "", printable(lines[i]), out);
}

void add_config(const Painter& painter, const std::vector<ConfigLine>& config, std::string& out) {
  std::string file;
  for (const ConfigLine& line : config) {
    if (line.file != file) {
      const std::string_view how = !line.by_hand           ? ""
                                   : line.replaces.empty() ? " (by hand)"
                                                           : " (by hand, in place of its line)";
      add_labelled(painter, "keep",
                   painter.wrap(fmt::format("in {}{}", line.file, how), kIndent + kLabelWidth),
                   out);
    }
    file = line.file;
    add_labelled(painter, "", printable(line.line), out);
  }
}

// Adds a text that stays whole: two blanks after `column` where the line has room for it, on a line
// of its own otherwise. Returns the column it ends at.
size_t add_whole(const Painter& painter, std::string_view text, std::string_view painted,
                 size_t column, std::string& out) {
  const bool fits = painter.fits(text, column + 2);
  out += fits ? "  " : "\n" + std::string(kIndent, ' ');
  out += painted;
  return (fits ? column + 2 : kIndent) + columns_of(text);
}

void add_finding(const Painter& painter, const Finding& finding, std::string& out) {
  const std::string label = fmt::format("{:<5}", severity_label(finding.severity));
  out += painter.paint(severity_colour(finding.severity), label) + "  ";
  out += painter.paint(kBold, finding.title);
  size_t column = kIndent + columns_of(finding.title);
  const std::string subject = printable(finding.subject);
  if (!subject.empty()) column = add_whole(painter, subject, subject, column, out);
  const std::string id = "[" + finding.id + "]";
  add_whole(painter, id, painter.paint(kDim, id), column, out);
  out += "\n";
  out += std::string(kIndent, ' ') + painter.wrap(printable(finding.observed), kIndent) + "\n";
  const size_t body = kIndent + kLabelWidth;
  if (!finding.why.empty()) add_labelled(painter, "why", painter.wrap(finding.why, body), out);
  if (!finding.advice.empty())
    add_labelled(painter, "do", painter.wrap(printable(finding.advice), body), out);
  add_lines(painter, "fix", finding.commands, out);
  add_config(painter, finding.config, out);
  add_lines(painter, "look", finding.look, out);
  out += "\n";
}

// What a finding is about, in columns, as add_brief writes it on one line.
size_t name_columns(const Finding& finding) {
  const size_t subject = columns_of(printable(finding.subject));
  return columns_of(finding.title) + (subject == 0 ? 0 : subject + 2);
}

void add_brief_line(const Painter& painter, const Finding& finding, size_t width,
                    std::string& out) {
  out += std::string(kIndent, ' ') + finding.title;
  const std::string subject = printable(finding.subject);
  if (!subject.empty())
    add_whole(painter, subject, subject, kIndent + columns_of(finding.title), out);
  const std::string observed = printable(finding.observed);
  const size_t name = name_columns(finding);
  if (painter.is_narrow() || name > width) {
    out += "\n" + std::string(kIndent + 2, ' ') + painter.wrap(observed, kIndent + 2) + "\n";
  } else {
    out += std::string(width + 2 - name, ' ') + painter.wrap(observed, kIndent + width + 2) + "\n";
  }
}

// The many that need no attention, a line each.
void add_brief(const Painter& painter, const Report& report, Severity severity,
               std::string_view heading, std::string& out) {
  if (report.count(severity) == 0) return;
  size_t width = 0;
  for (const Finding& finding : report.findings) {
    if (finding.severity == severity)
      width = std::max(width, std::min<size_t>(name_columns(finding), 36));
  }
  out += painter.paint(severity_colour(severity), heading) + "\n";
  for (const Finding& finding : report.findings) {
    if (finding.severity == severity) add_brief_line(painter, finding, width, out);
  }
  out += "\n";
}

std::string gpu_text(const std::vector<std::string>& gpus) {
  if (gpus.empty()) return "no NVIDIA GPU seen";
  const bool alike =
      std::all_of(gpus.begin(), gpus.end(), [&](const std::string& gpu) { return gpu == gpus[0]; });
  if (alike) return fmt::format("{} × {}", gpus.size(), printable(gpus[0]));
  return printable(fmt::format("{}", fmt::join(gpus, ", ")));
}

std::string machine_text(const MachineSummary& machine) {
  std::vector<std::string> parts;
  if (!machine.kernel.empty()) parts.push_back("Linux " + printable(machine.kernel));
  if (machine.cores != 0)
    parts.push_back(fmt::format("{} core{}", machine.cores, machine.cores == 1 ? "" : "s"));
  if (machine.memory_bytes != 0) parts.push_back(format_size(machine.memory_bytes) + " RAM");
  if (machine.memory_limit_bytes)
    parts.push_back(format_size(*machine.memory_limit_bytes) + " limit");
  parts.push_back(gpu_text(machine.gpus));
  return fmt::format("{}", fmt::join(parts, " · "));
}

std::string path_text(const PathSummary& path) {
  std::vector<std::string> parts;
  if (path.type == kUnseenType) {
    return "its file system cannot be seen: it is not in /proc/self/mountinfo (in a chroot?)";
  }
  const bool is_device = path.type == kBlockDeviceType;
  parts.push_back(is_device ? "a block device, not a file system"
                            : fmt::format("{} from {}", path.type, path.source));
  if (!is_device && path.mount_point != path.path)
    parts.push_back("mounted at " + path.mount_point);
  if (!path.raid_level.empty()) parts.push_back(fmt::format("{} {}", path.device, path.raid_level));
  for (size_t i = 0; i < path.disks.size(); ++i) {
    if ("/dev/" + path.disks[i] == path.source && path.models[i].empty()) continue;
    const std::string& model = path.models[i];
    parts.push_back(model.empty() ? path.disks[i] : fmt::format("{} {}", path.disks[i], model));
  }
  if (path.space && path.space->total_bytes != 0)
    parts.push_back(fmt::format("{} free of {}", format_size(path.space->available_bytes),
                                format_size(path.space->total_bytes)));
  return printable(fmt::format("{}", fmt::join(parts, " · ")));
}

std::string counted(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string summary_text(const Report& report) {
  return fmt::format("{}, {}, {}; {} fine, {} not seen.",
                     counted(report.count(Severity::kError), "error"),
                     counted(report.count(Severity::kWarn), "warning"),
                     counted(report.count(Severity::kInfo), "note"), report.count(Severity::kOk),
                     report.count(Severity::kUnknown));
}

bool has_fixes(const Report& report) {
  return std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
    return !finding.commands.empty() || !finding.config.empty();
  });
}

}  // namespace

size_t default_columns() {
  const char* text = std::getenv("COLUMNS");
  const auto columns = parse_u64(text == nullptr ? "" : text);
  if (!columns || *columns == 0) return kUsualColumns;
  return std::clamp<uint64_t>(*columns, kFewestColumns, kUsualColumns);
}

std::string render_text(const Report& report, const TextStyle& style) {
  const Painter painter(style);
  std::string out = painter.paint(kBold, "machine") + "\n  " +
                    painter.wrap(machine_text(report.machine), 2) + "\n";
  for (const PathSummary& path : report.paths) {
    out += painter.paint(kBold, printable(path.path)) + "\n  ";
    out += painter.wrap(path_text(path), 2) + "\n";
  }
  out += "\n";
  for (const Finding& finding : report.findings) {
    if (finding.severity >= Severity::kInfo) add_finding(painter, finding, out);
  }
  add_brief(painter, report, Severity::kUnknown, "not seen", out);
  add_brief(painter, report, Severity::kOk, "fine", out);
  out +=
      painter.paint(severity_colour(report.worst()), painter.wrap(summary_text(report), 0)) + "\n";
  if (has_fixes(report))
    out += painter.wrap("Nothing was changed. The fixes as a script, to read and then run as root:",
                        0) +
           "\n  " + style.script_command + "\n";
  return out;
}

}  // namespace penstock::tune::doctor
