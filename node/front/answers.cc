#include "node/front/answers.h"

#include <algorithm>

#include "base/text.h"
#include "node/front/status_json.h"

namespace starling::node {
namespace {

using training::Json;
using training::to_line;

// What `read` makes of the text; an Error if the text is not JSON or lacks what is read.
template <class Read>
auto parse(const std::string& text, const char* what, Read read) -> Result<decltype(read(Json()))> {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception&) {
    return Error{std::string("this is not ") + what};
  }
}

}  // namespace

std::string to_json(const PeerStatus& status) {
  return to_line(json_of(status));
}

std::string to_json(const std::vector<MemberStatus>& members) {
  return to_line({{"members", json_of(members)}});
}

Result<PeerStatus> parse_status(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  auto status = status_from(object);
  if (!status) return Error{"this is not a peer's status: " + status.error().message};
  return status;
}

Result<std::vector<MemberStatus>> parse_members(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  const auto list = object.is_object() ? object.find("members") : object.end();
  if (list == object.end()) return Error{"this is not a list of members"};
  auto members = members_from(*list);
  if (!members) return Error{"this is not a list of members: " + members.error().message};
  return members;
}

std::string leaving_json() {
  return to_line({{"leaving", true}});
}

bool is_leaving(const std::string& text) {
  const auto leaving =
      parse(text, "an answer", [](const Json& object) { return object.at("leaving").get<bool>(); });
  return leaving && *leaving;
}

std::string parse_error(const std::string& text) {
  const auto sentence =
      parse(text, "an error", [](const Json& object) { return object.at("error").get<std::string>(); });
  return sentence ? *sentence : "";
}

std::string introduction_json(const Address& address) {
  return to_line({{"address", to_string(address)}});
}

Result<Address> parse_introduction(const std::string& text) {
  const auto address = parse(text, "{\"address\": \"HOST:PORT\"}",
                             [](const Json& object) { return object.at("address").get<std::string>(); });
  if (!address) return Error{"the body must be {\"address\": \"HOST:PORT\"}"};
  auto parsed = Address::parse(*address);
  if (parsed && parsed->port == 0)
    return Error{"port 0 cannot be dialed; give the port that the peer listens on"};
  return parsed;
}

std::string topology_request_json(const std::string& name) {
  return to_line({{"topology", name}});
}

Result<std::string> parse_topology_request(const std::string& text) {
  const auto name = parse(text, "{\"topology\": \"NAME\"}",
                          [](const Json& object) { return object.at("topology").get<std::string>(); });
  if (!name) return Error{"the body must be {\"topology\": \"NAME\"}"};
  return *name;
}

std::string paused_json(bool paused) {
  return to_line({{"paused", paused}});
}

std::string log_level_json(const std::string& level) {
  return to_line({{"level", level}});
}

Result<std::string> parse_log_level(const std::string& text) {
  const auto level = parse(text, "{\"level\": \"NAME\"}",
                           [](const Json& object) { return object.at("level").get<std::string>(); });
  if (!level) return Error{"the body must be {\"level\": \"NAME\"}"};
  const std::vector<std::string> levels = {"trace", "debug", "info", "warning", "error"};
  if (std::find(levels.begin(), levels.end(), *level) == levels.end())
    return Error{"the level '" + *level + "' is unknown; it must be " + one_of(levels)};
  return *level;
}

}  // namespace starling::node
