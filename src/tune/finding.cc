#include "tune/finding.h"

#include "tune/knowledge.h"

namespace penstock::tune::doctor {

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kUnknown:
      return "unknown";
    case Severity::kInfo:
      return "info";
    case Severity::kWarn:
      return "warn";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

Finding make_finding(std::string_view rule_id, Severity severity, std::string subject,
                     std::string observed, const Values& values) {
  const Rule& row = rule(rule_id);
  Finding finding;
  finding.id = row.id;
  finding.severity = severity;
  finding.subject = std::move(subject);
  finding.title = row.title;
  finding.observed = std::move(observed);
  if (severity == Severity::kOk || severity == Severity::kUnknown) return finding;
  finding.why = row.why;
  finding.advice = fill_template(row.advice, values);
  Values quoted = values;
  for (auto& [name, value] : quoted) value = shell_quote(value);
  for (const std::string_view command : row.commands)
    finding.commands.push_back(fill_template(command, quoted));
  for (const std::string_view command : row.look)
    finding.look.push_back(fill_template(command, quoted));
  for (const ConfigTemplate& config : row.config)
    finding.config.push_back(
        {std::string(config.file), fill_template(config.line, values), "", false});
  return finding;
}

Finding make_unknown(std::string_view rule_id, std::string subject, std::string reason) {
  return make_finding(rule_id, Severity::kUnknown, std::move(subject), std::move(reason));
}

}  // namespace penstock::tune::doctor
