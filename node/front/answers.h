// The texts of the HTTP interface (docs/API.md), in JSON both ways: a peer writes answers and reads requests,
// the command line writes requests and reads answers.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "node/front/status.h"

namespace starling::node {

// One line each, its newline included: an object, and {"members": [...]}.
std::string to_json(const PeerStatus& status);
std::string to_json(const std::vector<MemberStatus>& members);

// A field that is missing keeps its default and an unknown one is ignored, so that texts of older and newer
// peers can be read; a name and an id are required. An Error if the text is something else.
Result<PeerStatus> parse_status(const std::string& text);
Result<std::vector<MemberStatus>> parse_members(const std::string& text);

// {"leaving": true}: the answer of a peer that was asked to leave.
std::string leaving_json();
bool is_leaving(const std::string& text);

// The sentence of {"error": ...}; empty if there is none.
std::string parse_error(const std::string& text);

// {"address": "HOST:PORT"}: a peer to meet.
std::string introduction_json(const Address& address);
Result<Address> parse_introduction(const std::string& text);

// {"topology": NAME}: the topology that the swarm is to use.
std::string topology_request_json(const std::string& name);
Result<std::string> parse_topology_request(const std::string& text);

// {"paused": true}: the answer of a peer that was asked to pause or to resume.
std::string paused_json(bool paused);

// {"level": "debug"}: the log's new level: trace, debug, info, warning or error.
std::string log_level_json(const std::string& level);
Result<std::string> parse_log_level(const std::string& text);

// The figures in Prometheus' text format 0.0.4 (metrics.cc, the only file that uses the library). Names
// follow its conventions: a prefix, base units, counters that end in _total, labels with few values.
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
std::string metrics_text(const PeerStatus& status, const std::vector<MemberStatus>& members);

}  // namespace starling::node
