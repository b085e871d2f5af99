// What a peer says if it is given the address of something else than a peer, or cannot discover others.
#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

// A training peer with an --http address.
struct Host {
  explicit Host(const Words& more = {}) : program(with_addresses(more)) {
    http = program.wait_for_error_word("HTTP at ");
    address = program.wait_for_error_word(" listens at ");
    REQUIRE(program.wait_for_error_text("training begins"));
  }
  static Words with_addresses(const Words& more) {
    Words words = {"peer",    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                   "--model", "softmax",  "--pace",      "5ms"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Program program;
  std::string http, address;
};

TEST_CASE("--join with a peer's HTTP address names the address to join instead") {
  Host host;
  const std::string said = " is an HTTP port; its peer listens at " + host.address + "\n";
  const Outcome outcome = run({"peer", "--listen", "127.0.0.1:0", "--join", host.http});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.ends_with("starling peer: --join: " + host.http + said));
  CHECK(contains(outcome.err, "connections refused or broken: not from a Starling peer 1"));
  CHECK_FALSE(contains(outcome.err, "magic"));
  const Outcome variable = run({"peer", "--listen", "127.0.0.1:0"}, {{"STARLING_JOIN", host.http}});
  CHECK(variable.err.ends_with("starling peer: STARLING_JOIN: " + host.http + said));

  const TemporaryFolder folder;
  REQUIRE(run({"key", "new", folder.file("key")}).exit_code == 0);
  const Outcome keyed =
      run({"peer", "--listen", "127.0.0.1:0", "--join", host.http, "--key", folder.file("key")});
  CHECK(keyed.exit_code == 2);
  CHECK(keyed.err.ends_with("starling peer: --join: " + host.http + said));
}

TEST_CASE("--at with a peer's own port names the usual one, and the peer's log says what arrived") {
  Host host;
  const Outcome outcome = run({"status", "--at", host.address});
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err, host.address + " is a peer's --listen address"));
  CHECK(contains(outcome.err, "7180"));
  CHECK(host.program.wait_for_error_text(
      "is not a Starling peer: it sent an HTTP request; a peer's page is at its --http address"));
}

TEST_CASE("a name that does not resolve and a port without a peer are reported at once, and retried") {
  Program lost({"peer", "--listen", "127.0.0.1:0", "--join", "nohost.invalid:7100"});
  CHECK(
      lost.wait_for_error_text("cannot reach nohost.invalid:7100: the name nohost.invalid does not resolve"));
  CHECK(lost.wait_for_error_text("check its spelling"));
  CHECK(lost.wait_for_error_text("trying again"));
  Program early({"peer", "--listen", "127.0.0.1:0", "--join", "127.0.0.1:1"});
  CHECK(early.wait_for_error_text("Connection refused: no peer listens at that port now; trying again"));
  const Outcome limited =
      run({"peer", "--listen", "127.0.0.1:0", "--join", "127.0.0.1:1", "--join-timeout", "500ms"});
  CHECK(limited.exit_code == 1);
  CHECK(contains(limited.err, "no member has let this peer in within its time to join: cannot reach"));
}

TEST_CASE("a peer of another swarm is told which name to join with") {
  Host host({"--swarm", "geese"});
  const Outcome outcome = run({"peer", "--listen", "127.0.0.1:0", "--join", host.address});
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "this peer belongs to swarm 'geese'; join it with --swarm geese"));
}

TEST_CASE("--discover needs an address that other machines can dial") {
  const std::string advice = "; listen on an address of this network, for example --listen 0.0.0.0:7100\n";
  CHECK(run({"peer", "--discover"}).err ==
        "starling peer: --discover: other machines cannot dial 127.0.0.1:7100" + advice);
  const Outcome outcome = run({"peer", "--listen", "[::1]:0"}, {{"STARLING_DISCOVER", "true"}});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "starling peer: STARLING_DISCOVER: other machines cannot dial [::1]:0" + advice);
  CHECK(run({"peer", "--discover", "--listen", "none", "--rule", "all-reduce"}).err ==
        "starling peer: --discover cannot be combined with gossip.rule all-reduce\n");
}

TEST_CASE("--discover without an Avahi daemon names what to install") {
  const Environment no_bus = {{"DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/no/such/bus"}};
  for (const Words& more : {Words{}, Words{"--join", "127.0.0.1:1"}}) {
    Words words = {"peer", "--discover", "--listen", "none"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words, no_bus);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "starling peer: --discover: no Avahi daemon answers on this machine ("));
    CHECK(outcome.err.ends_with("; install and start avahi-daemon\n"));
  }
}

}  // namespace
}  // namespace starling::cli_tests
