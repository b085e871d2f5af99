#include "node/front/answers.h"

#include <algorithm>

#include "base/text.h"
#include "training/records/json.h"

namespace starling::node {
namespace {

using training::Json;
using training::to_line;

// The value of a field. The Error says that the body must have this `form`.
template <class T>
Result<T> field_of(const std::string& text, const char* name, const char* form = "") {
  try {
    return Json::parse(text).at(name).get<T>();
  } catch (const Json::exception&) {
    return Error{std::string("the body must be ") + form};
  }
}

}  // namespace

std::string leaving_json() { return to_line({{"leaving", true}}); }

bool is_leaving(const std::string& text) {
  const auto leaving = field_of<bool>(text, "leaving");
  return leaving && *leaving;
}

std::string parse_error(const std::string& text) {
  const auto sentence = field_of<std::string>(text, "error");
  return sentence ? *sentence : "";
}

std::string introduction_json(const Address& address) { return to_line({{"address", to_string(address)}}); }

Result<Address> parse_introduction(const std::string& text) {
  const auto address = field_of<std::string>(text, "address", "{\"address\": \"HOST:PORT\"}");
  if (!address) return address.error();
  auto parsed = Address::parse(*address);
  if (parsed && parsed->port == 0)
    return Error{"port 0 cannot be dialed; give the port that the peer listens on"};
  return parsed;
}

std::string topology_request_json(const std::string& name) { return to_line({{"topology", name}}); }

Result<std::string> parse_topology_request(const std::string& text) {
  return field_of<std::string>(text, "topology", "{\"topology\": \"NAME\"}");
}

std::string paused_json(bool paused) { return to_line({{"paused", paused}}); }

std::string log_level_json(const std::string& level) { return to_line({{"level", level}}); }

Result<std::string> parse_log_level(const std::string& text) {
  auto level = field_of<std::string>(text, "level", "{\"level\": \"NAME\"}");
  const std::vector<std::string> levels = {"trace", "debug", "info", "warning", "error"};
  if (level && std::ranges::count(levels, *level) == 0)
    return Error{"the level '" + *level + "' is unknown; it must be " + one_of(levels)};
  return level;
}

}  // namespace starling::node
