// Peers that do not listen, on one machine. tests/reach has routers between them.
#include <signal.h>

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

json ask_about_reach(const std::string& http, const char* command) {
  const Outcome answer = run({command, "--at", http, "--json"});
  INFO(answer.err);
  REQUIRE(answer.exit_code == 0);
  return json::parse(answer.out);
}

struct RelayedSwarm {
  RelayedSwarm() {
    CHECK(run({"key", "new", key}).exit_code == 0);
    relay = std::make_unique<Program>(Words{"peer", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                            "--key", key, "--relay", "1Gbit/s", "--model", "mlp", "--data",
                                            "glyphs", "--epochs", "1000", "--name", "relay"});
    at = relay->wait_for_error_word("listens at ");
    if (!at.empty() && at.back() == ',') at.pop_back();
    http = relay->wait_for_error_word("HTTP at ");
    REQUIRE_FALSE(http.empty());
    for (const char* name : {"one", "two"})
      others.push_back(std::make_unique<Program>(
          Words{"peer", "--listen", "none", "--join", at, "--key", key, "--name", name}));
  }

  TemporaryFolder folder;
  std::string key = folder.file("key"), at, http;
  std::unique_ptr<Program> relay;
  std::vector<std::unique_ptr<Program>> others;
};

}  // namespace

TEST_CASE("peers that do not listen train with one that does, and with each other through it") {
  RelayedSwarm swarm;
  CHECK(eventually([&] { return ask_about_reach(swarm.http, "status").at("relay").at("bytes") > 0; }));
  const json members = ask_about_reach(swarm.http, "members").at("members");
  REQUIRE(members.size() == 3);
  for (const json& member : members) CHECK((member.at("address") == "") == (member.at("name") != "relay"));
  CHECK(eventually([&] { return ask_about_reach(swarm.http, "status").at("exchanges").at("answered") > 0; }));
  for (const auto& program : swarm.others) {
    program->signal(SIGTERM);
    CHECK(program->finish().exit_code == 0);
    CHECK(program->error_text().find("does not listen") != std::string::npos);
  }
}

}  // namespace starling::cli_tests
