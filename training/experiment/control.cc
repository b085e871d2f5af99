#include "training/experiment/control.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "training/records/json.h"
#include "training/experiment/quantities.h"

namespace starling::training {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"listening", "status", "snapshot", "finished"};

// Reads the fields of one object. A field that is absent keeps its default; one of the wrong type is
// remembered.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  void read(const char* key, std::string& out) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (field->is_string()) {
      out = field->get<std::string>();
    } else {
      refuse(key, "a string");
    }
  }
  template <class Unsigned>
  requires std::is_unsigned_v<Unsigned>
  void read(const char* key, Unsigned& out) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (field->is_number_unsigned() && field->get<std::uint64_t>() <= std::numeric_limits<Unsigned>::max()) {
      out = field->get<Unsigned>();
    } else {
      refuse(key, "a whole number");
    }
  }
  void read(const char* key, double& out) {
    std::optional<double> value;
    read(key, value);
    if (value) out = *value;
  }
  void read(const char* key, std::optional<double>& out) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (field->is_number()) {
      out = field->get<double>();
    } else {
      refuse(key, "a number");
    }
  }

  void read(const char* key, std::map<std::string, std::uint64_t>& out) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_object()) return refuse(key, "an object");
    for (const auto& [name, count] : field->items()) {
      if (!count.is_number_unsigned()) return refuse(key, "an object of whole numbers");
      out[name] = count.get<std::uint64_t>();
    }
  }

  void read(const char* key, Staleness& out) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > Staleness::kBuckets) return refuse(key, "a list of at most 16 counts");
    for (std::size_t i = 0; i < field->size(); ++i) {
      const Json& count = (*field)[i];
      if (!count.is_number_unsigned()) return refuse(key, "a list of whole numbers");
      out.counts()[i] = count.get<std::uint64_t>();
    }
  }

  const std::string& error() const { return error_; }

 private:
  const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  void refuse(const char* key, const char* expected) {
    if (error_.empty()) error_ = std::string("a report's \"") + key + "\" is not " + expected;
  }

  const Json& object_;
  std::string error_;
};

}  // namespace

std::string to_json(const PeerReport& report) {
  // A number that is not finite becomes null, as JSON has none.
  Json object = {{"kind", kKinds[static_cast<std::size_t>(report.kind)]}};
  if (!report.address.empty()) object["address"] = report.address;
  if (!report.state.empty()) object["state"] = report.state;
  object["device"] = report.device;
  object["steps"] = report.steps;
  object["samples"] = report.samples;
  object["swarm_samples"] = report.swarm_samples;
  object["bytes_sent"] = report.bytes_sent;
  object["members"] = report.members;
  object["seconds"] = report.seconds;
  object["samples_per_second"] = report.samples_per_second;
  if (report.loss) object["loss"] = *report.loss;
  if (report.learning_rate) object["learning_rate"] = *report.learning_rate;
  if (report.distance) object["distance"] = *report.distance;
  object["exchanges"] = {{"completed", report.exchanges.completed},
                         {"aborted", report.exchanges.aborted},
                         {"rejected", report.exchanges.rejected},
                         {"half_applied_chunks", report.exchanges.half_applied_chunks},
                         {"refused_chunks", Json(report.exchanges.refused_chunks)}};
  object["answered"] = report.answered;
  if (report.snapshot != 0) object["snapshot"] = report.snapshot;
  object["computing_seconds"] = report.computing_seconds;
  object["exchanging_seconds"] = report.exchanging_seconds;
  object["waiting_seconds"] = report.waiting_seconds;
  object["staleness"] = Json::array();
  for (std::size_t i = 0; i < report.staleness.used(); ++i)
    object["staleness"].push_back(report.staleness.counts()[i]);
  if (!report.path.empty()) object["path"] = report.path;
  if (!report.path_before_settling.empty()) object["path_before_settling"] = report.path_before_settling;
  return to_text(object);
}

Result<PeerReport> parse_report(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return Error{"a report is not one JSON object on a line"};

  PeerReport report;
  std::string kind;
  Fields fields(object);
  fields.read("kind", kind);
  const auto known = std::find(kKinds.begin(), kKinds.end(), kind);
  if (known == kKinds.end())
    return Error{"a report's \"kind\" is none of listening, status, snapshot, finished"};
  report.kind = static_cast<PeerReport::Kind>(known - kKinds.begin());

  fields.read("address", report.address);
  fields.read("state", report.state);
  fields.read("device", report.device);
  fields.read("steps", report.steps);
  fields.read("samples", report.samples);
  fields.read("swarm_samples", report.swarm_samples);
  fields.read("bytes_sent", report.bytes_sent);
  fields.read("members", report.members);
  fields.read("seconds", report.seconds);
  fields.read("samples_per_second", report.samples_per_second);
  fields.read("loss", report.loss);
  fields.read("learning_rate", report.learning_rate);
  fields.read("distance", report.distance);
  fields.read("answered", report.answered);
  fields.read("snapshot", report.snapshot);
  fields.read("computing_seconds", report.computing_seconds);
  fields.read("exchanging_seconds", report.exchanging_seconds);
  fields.read("waiting_seconds", report.waiting_seconds);
  fields.read("staleness", report.staleness);
  fields.read("path", report.path);
  fields.read("path_before_settling", report.path_before_settling);
  if (!fields.error().empty()) return Error{fields.error()};

  if (const auto exchanges = object.find("exchanges"); exchanges != object.end()) {
    if (!exchanges->is_object()) return Error{"a report's \"exchanges\" is not an object"};
    Fields counts(*exchanges);
    counts.read("completed", report.exchanges.completed);
    counts.read("aborted", report.exchanges.aborted);
    counts.read("rejected", report.exchanges.rejected);
    counts.read("half_applied_chunks", report.exchanges.half_applied_chunks);
    counts.read("refused_chunks", report.exchanges.refused_chunks);
    if (!counts.error().empty()) return Error{counts.error()};
  }
  return report;
}

namespace {

constexpr std::string_view kLinkWord = "link ";

// The text up to the next blank, which goes too.
std::string_view next_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

}  // namespace

std::string format_link_order(const LinkOrder& order) {
  std::string text = std::string(kLinkWord) + to_string(order.to);
  if (order.latency > Duration{0}) text += " latency=" + format_duration(order.latency);
  if (order.bandwidth > 0) text += " bandwidth=" + format_rate(order.bandwidth);
  if (order.drop > 0) text += " drop=" + format_number(order.drop);
  return text;
}

bool is_link_order(std::string_view command) {
  return command.starts_with(kLinkWord);
}

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
    const auto take = [](const auto& parsed, auto& target) -> Status {
      if (!parsed) return parsed.error();
      target = *parsed;
      return Done{};
    };
    Status taken = Done{};
    if (key == "latency") {
      taken = take(parse_time(value), order.latency);
    } else if (key == "bandwidth") {
      taken = take(parse_rate(value), order.bandwidth);
    } else if (key == "drop") {
      taken = take(parse_real(value, {0, 1, false, true}), order.drop);
    } else {
      taken = Error{"'" + std::string(word.substr(0, 80)) + "' is none of latency=, bandwidth= and drop="};
    }
    if (!taken) return refuse(taken.error().message);
  }
  return order;
}

}  // namespace starling::training
