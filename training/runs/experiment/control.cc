#include "training/runs/experiment/control.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/records/json_fields.h"

namespace starling::training {
namespace {

constexpr std::array<std::string_view, 4> kReportKinds = {"listening", "status", "snapshot", "finished"};

template <class Visitor, class Report>
void fields(Visitor& visit, Report& report) {
  visit.if_any("address", report.address);
  visit.if_any("state", report.state);
  visit_figures(visit, report, figure::device, figure::precision, figure::steps, figure::samples,
                figure::swarm_samples, figure::bytes_sent);
  visit("members", report.members);
  visit("seconds", report.seconds);
  visit_figures(visit, report, figure::samples_per_second, figure::loss, figure::learning_rate,
                figure::distance);
  visit.object("exchanges", [&](auto& inner) { visit_counts(inner, report.exchanges); });
  visit("answered", report.answered);
  visit.if_any("snapshot", report.snapshot);
  visit("computing_seconds", report.computing_seconds);
  visit("exchanging_seconds", report.exchanging_seconds);
  visit("waiting_seconds", report.waiting_seconds);
  visit("staleness", report.staleness);
  visit.if_any("path", report.path);
  visit.if_any("path_before_settling", report.path_before_settling);
  visit_sharing(visit, report, true);
}

constexpr std::string_view kLinkWord = "link ";

// Removes the text up to and including the next blank; returns it without the blank.
std::string_view next_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

}  // namespace

std::string to_json(const PeerReport& report) {
  FieldWriter writer(Absent::left_out);
  writer("kind", kReportKinds[static_cast<std::size_t>(report.kind)]);
  fields(writer, report);
  return to_text(writer.take());
}

Result<PeerReport> parse_report(std::string_view line) {
  const Json object = parse_json(line);
  if (!object.is_object()) return Error{"a report is not one JSON object on a line"};
  PeerReport report;
  FieldReader reader(object, "a report's");
  std::string kind;
  reader("kind", kind);
  const auto known = std::find(kReportKinds.begin(), kReportKinds.end(), kind);
  if (known == kReportKinds.end())
    return Error{"a report's \"kind\" is not listening, status, snapshot or finished"};
  report.kind = static_cast<PeerReport::Kind>(known - kReportKinds.begin());
  fields(reader, report);
  if (!reader.error().empty()) return Error{reader.error()};
  return report;
}

std::string format_link_order(const LinkOrder& order) {
  std::string text = std::string(kLinkWord) + to_string(order.to);
  if (order.latency > Duration{0}) text += " latency=" + format_duration(order.latency);
  if (order.bandwidth > 0) text += " bandwidth=" + format_rate(order.bandwidth);
  if (order.drop > 0) text += " drop=" + format_number(order.drop);
  return text;
}

bool is_link_order(std::string_view command) { return command.starts_with(kLinkWord); }

Result<LinkOrder> parse_link_order(std::string_view command) {
  const auto refuse = [](const std::string& why) { return Error{"a command for a link: " + why}; };
  if (!is_link_order(command)) return refuse("it does not begin with 'link '");
  command.remove_prefix(kLinkWord.size());
  const auto to = Address::parse(next_word(command));
  if (!to) return refuse(to.error().message);
  LinkOrder order;
  order.to = *to;
  while (!command.empty()) {
    const std::string_view word = next_word(command);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(std::min(equals + 1, word.size()));
    Status taken = Done{};
    if (key == "latency") {
      taken = take(parse_time(value), order.latency);
    } else if (key == "bandwidth") {
      taken = take(parse_rate(value), order.bandwidth);
    } else if (key == "drop") {
      taken = take(parse_real(value, {0, 1, false, true}), order.drop);
    } else {
      taken = Error{in_quotes(word) + " is not latency=..., bandwidth=... or drop=..."};
    }
    if (!taken) return refuse(taken.error().message);
  }
  return order;
}

}  // namespace starling::training
