#include "node/peer/settings.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::node {
namespace {

const PeerSetting& setting_with(const std::string& flag) {
  const auto at = std::ranges::find(peer_settings(), flag, &PeerSetting::flag);
  REQUIRE(at != peer_settings().end());
  return *at;
}

std::string refusal(const std::string& flag, const std::string& value) {
  DaemonOptions options;
  const Status set = setting_with(flag).set(options, value);
  REQUIRE_FALSE(set);
  return set.error().message;
}

}  // namespace

TEST_CASE("a peer's setting has one name as key, flag and variable, and a launcher's has only a flag") {
  std::set<std::string> flags;
  for (const PeerSetting& setting : peer_settings()) {
    INFO(setting.flag);
    CHECK(flags.insert(setting.flag).second);
    CHECK_FALSE(setting.help.empty());
    std::string word = setting.flag.substr(2), capitals;
    std::ranges::replace(word, '-', '_');
    for (const char c : word) capitals += c == '_' ? '_' : static_cast<char>(c - 'a' + 'A');
    CHECK(setting.environment == (setting.of_launcher ? "" : "STARLING_" + capitals));
    const bool has_key = !setting.of_launcher && word != "config";
    CHECK(setting.key == (has_key ? "daemon." + word : ""));
  }
}

TEST_CASE("no setting of a peer names a command to run, because all can come from a file") {
  for (const PeerSetting& setting : peer_settings()) CHECK(setting.placeholder != "CMD");
}

TEST_CASE("a setting's text becomes the peer's option, and a repeatable one adds to a list") {
  DaemonOptions options;
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--listen", "none"},
                                                        {"--join", "a:1"},
                                                        {"--join", "b:2"},
                                                        {"--relay", "10Mbit/s"},
                                                        {"--swarm", "geese"},
                                                        {"--checkpoint-every", "100 steps"},
                                                        {"--keep", "7"},
                                                        {"--token-always", "true"},
                                                        {"--slot", "3/8"},
                                                        {"--patience", "2m"}}) {
    INFO(flag);
    CHECK(setting_with(flag).set(options, value));
  }
  CHECK_FALSE(options.reach.listen);
  CHECK(options.join == std::vector<Address>{{"a", 1}, {"b", 2}});
  CHECK(options.reach.relay == 10'000'000);
  CHECK(options.swarm == "geese");
  CHECK(options.checkpoints.every.steps == 100);
  CHECK(options.checkpoints.keep == 7);
  CHECK(options.token.always);
  CHECK(options.slot == std::pair<std::uint32_t, std::uint32_t>(3, 8));
  CHECK(options.all_reduce.patience == std::chrono::minutes(2));
}

TEST_CASE("a value that a peer's setting does not accept is named with what is accepted") {
  CHECK(refusal("--join", "h:0") == "port 0 cannot be dialed; give the port that the peer listens on");
  CHECK(refusal("--relay", "1bit/s") == "'1bit/s' is not between 8kbit/s and 1000Gbit/s");
  CHECK(refusal("--keep", "0") == "'0' is not a whole number from 1 to 100000");
  CHECK(refusal("--slot", "4/4") == "'4/4' is not K/N with K below N");
  CHECK(refusal("--slot", "4") == "'4' is not K/N with K below N");
  CHECK(refusal("--out", "") == "the path is empty");
  CHECK(contains(refusal("--name", "a/b"), "'a/b' is not 1 to 64 letters"));
  CHECK(contains(refusal("--checkpoint-every", "0s"), "'0s' is neither a time such as 30s"));
  CHECK(contains(refusal("--export", "/no/such/x"), "the folder /no/such does not exist"));

  DaemonOptions crowded;
  const PeerSetting& advertise = setting_with("--advertise");
  for (const char* address : {"a:1", "b:1", "c:1", "d:1"}) CHECK(advertise.set(crowded, address));
  CHECK(advertise.set(crowded, "e:1").error().message == "more than 4 addresses");
}

TEST_CASE("settings of a peer that exclude each other are rejected with both names") {
  const auto problem = [](const DaemonOptions& options) {
    return check_peer_options(options).error().message;
  };
  CHECK(check_peer_options(DaemonOptions{}));
  DaemonOptions silent;
  silent.reach.listen = {};
  silent.reach.relay = 8000;
  CHECK(problem(silent) == "--relay has no effect with --listen none: a relay must be dialed");
  DaemonOptions hidden;
  hidden.discover = true;
  CHECK(contains(problem(hidden), "--discover: other machines cannot dial 127.0.0.1:0"));
  DaemonOptions taught;
  taught.trainer.socket = "trainer";
  taught.given = {"training.workers"};
  CHECK(problem(taught) == "--workers cannot be combined with --trainer: the trainer decides it");
}

}  // namespace starling::node
