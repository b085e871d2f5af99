// Commands for a running peer: members, status, leave, pause, topology set and others.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <functional>

#include "base/ids.h"
#include "gossip/members/statements.h"
#include "node/front/answers.h"
#include "node/front/http_client.h"
#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/transport/world.h"
#include "transport/links/link_table.h"
#include "transport/trust/identity.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

Words http_peer(Words more) {
  Words words = {"peer", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A training peer with an --http address.
struct Asked {
  explicit Asked(Words more) : program(http_peer(std::move(more))) {
    http = program.wait_for_error_word("HTTP at ");
    address = program.wait_for_error_word(" listens at ");
    REQUIRE(program.wait_for_error_text("training begins"));
  }
  json ask(const std::string& command) const {
    const Outcome outcome = run({command, "--at", http, "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    CHECK(is_one_line(outcome.out));
    return json::parse(outcome.out);
  }
  Program program;
  std::string http, address;
};

void check_fails(const Words& words, int exit_code, const Words& said) {
  const Outcome outcome = run(words);
  INFO(outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out.empty());
  CHECK(is_one_line(outcome.err));
  for (const std::string& text : said) CHECK(outcome.err.find(text) != std::string::npos);
}

TEST_CASE("a running peer answers status and members, and leaves on request") {
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "5ms"});

  const json status = second.ask("status");
  CHECK(status.at("name") == "second");
  CHECK(status.at("id").get<std::string>().size() == 16);
  CHECK(status.at("swarm") == "starling");
  CHECK(status.at("address") == second.address);
  CHECK(status.at("model") == "softmax");
  CHECK(status.at("data") == "glyphs");
  CHECK(status.at("phase") == "training");
  CHECK(status.at("condition") == "training");
  CHECK(status.at("situation").get<std::string>().starts_with("This peer trains: "));
  CHECK(status.at("members_live") == 2);
  CHECK(status.at("members_known") == 2);
  CHECK(status.at("memory_bytes").get<std::uint64_t>() > 1'000'000);
  CHECK(status.at("bytes_received").get<std::uint64_t>() > 0);
  CHECK(status.at("uptime_seconds").get<double>() > 0);
  for (const char* field : {"version", "steps", "samples", "swarm_samples", "samples_per_second", "loss",
                            "learning_rate", "incarnation", "exchanges", "bytes_sent", "links_open"}) {
    INFO(field);
    CHECK(status.contains(field));
  }
  for (const char* field : {"begun", "completed", "aborted", "rejected", "answered", "half_applied_chunks"}) {
    INFO(field);
    CHECK(status.at("exchanges").contains(field));
  }

  const json members = second.ask("members").at("members");
  REQUIRE(members.size() == 2);
  CHECK(members[0].at("name") == "first");
  CHECK(members[0].at("address") == first.address);
  CHECK(members[0].at("state") == "alive");
  CHECK(members[0].at("phase") == "training");
  CHECK(members[0].at("this_peer") == false);
  CHECK(members[1].at("name") == "second");
  CHECK(members[1].at("this_peer") == true);
  CHECK(members[1].at("round_trip_seconds").is_null());

  // The output as text.
  const Outcome table = run({"members", "--at", second.http});
  REQUIRE(table.exit_code == 0);
  CHECK(table.out.starts_with("member"));
  CHECK(table.out.find("\nfirst ") != std::string::npos);
  CHECK(table.out.find("\nsecond ") != std::string::npos);
  CHECK(table.out.find("itself") != std::string::npos);
  const Outcome lines = run({"status", "--at", second.http});
  REQUIRE(lines.exit_code == 0);
  const std::string id = status.at("id").get<std::string>().substr(0, 8);
  CHECK(lines.out.starts_with("second (" + id + ") at " + second.address));
  CHECK(lines.out.find("softmax on glyphs") != std::string::npos);

  CHECK(second.ask("leave").at("leaving") == true);
  CHECK(second.program.finish().exit_code == 0);
  CHECK(first.program.wait_for_error_text("has left"));
  const json left = first.ask("members");
  for (const json& member : left.at("members"))
    CHECK(member.at("state") == (member.at("name") == "first" ? "alive" : "left"));
}

TEST_CASE("a running peer pauses and resumes, and other peers report it") {
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "5ms"});
  const auto steps = [](const Asked& peer) { return peer.ask("status").at("steps").get<std::uint64_t>(); };

  const Outcome paused = run({"pause", "--at", second.http});
  CHECK(paused.exit_code == 0);
  CHECK(paused.out == "the peer is paused; `starling resume` resumes it\n");
  CHECK(second.ask("status").at("paused") == true);
  // A step in progress may finish; then there is none, while the first peer makes many.
  const std::uint64_t soon = steps(second), others = steps(first);
  while (steps(first) < others + 20) continue;
  CHECK(steps(second) <= soon + 1);
  const auto seen_paused = [&] {
    const json members = first.ask("members").at("members");
    for (const json& member : members)
      if (member.at("name") == "second" && member.at("paused") == true) return true;
    return false;
  };
  CHECK(eventually(seen_paused));

  CHECK(run({"resume", "--at", second.http}).out == "the peer resumes training\n");
  CHECK(eventually([&] { return steps(second) > soon + 5; }));
  CHECK(second.ask("status").at("paused") == false);

  const Outcome top = run({"top", "--at", first.http});
  CHECK(top.exit_code == 0);
  CHECK(top.out.find("2 of 2 members live") != std::string::npos);
  CHECK(top.out.find("\nsecond ") != std::string::npos);

  CHECK(run({"log-level", "debug", "--at", first.http}).out == "the peer's log level is now debug\n");
  CHECK(first.program.wait_for_error_text("the log level is debug"));
  check_fails({"log-level", "loud", "--at", first.http}, 2,
              {"'loud'", "trace, debug, info, warning or error"});
  check_fails({"pause", "--at", first.http, "--token-file", "/nowhere"}, 2, {"--token-file", "/nowhere"});
}

TEST_CASE("a command with a name goes to that member of the swarm") {
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "5ms"});
  CHECK(eventually([&] { return first.ask("members").at("members").size() == 2; }));
  CHECK(run({"pause", "second", "--at", first.http}).out ==
        "second is paused; `starling resume` resumes it\n");
  const json paused = second.ask("status");
  CHECK(paused.at("condition") == "paused");
  CHECK(paused.at("samples_per_second") == 0);
  CHECK(first.ask("status").at("condition") == "training");
  const std::string id = paused.at("id");
  CHECK(run({"resume", id, "--at", first.http}).out == id + " resumes training\n");
  CHECK(second.ask("status").at("condition") == "training");

  check_fails({"pause", "third", "--at", first.http}, 1, {"no live member 'third'", "first or second"});
  Program silent({"peer", "--listen", "127.0.0.1:0", "--join", first.address, "--name", "silent", "--data",
                  "glyphs", "--pace", "5ms"});
  CHECK(eventually([&] { return first.ask("members").at("members").size() == 3; }));
  check_fails({"leave", "silent", "--at", first.http}, 1, {"silent serves no HTTP", "--http ADDR:PORT"});
  CHECK(run({"leave", "second", "--at", first.http}).exit_code == 0);
  CHECK(second.program.finish().exit_code == 0);
}

TEST_CASE("a joiner with the name of a live member ends, and a dead member's name is free") {
  Asked first({"--model", "softmax", "--name", "north", "--pace", "5ms"});
  const Words join = {"peer",   "--listen", "127.0.0.1:0", "--join", first.address,
                      "--data", "glyphs",   "--pace",      "5ms",    "--name"};
  const auto named = [&](const char* name) {
    Words words = join;
    words.emplace_back(name);
    return words;
  };
  const Outcome twin = run(named("north"));
  INFO(twin.err);
  CHECK(twin.exit_code == 2);
  CHECK(twin.err.find("the name 'north' belongs to another live member at " + first.address) !=
        std::string::npos);
  CHECK(twin.err.find("--name north-2") != std::string::npos);
  CHECK(first.ask("status").at("condition") == "training");

  Program south(named("south"));
  const auto rows_of = [&](const char* name) {
    std::vector<std::string> conditions;
    const json members = first.ask("members");
    for (const json& member : members.at("members"))
      if (member.at("name") == name) conditions.push_back(member.at("condition"));
    return conditions;
  };
  using Conditions = std::vector<std::string>;
  CHECK(eventually([&] { return rows_of("south") == Conditions{"training"}; }));
  south.signal(SIGKILL);
  south.finish();
  Program again(named("south"));
  CHECK(eventually([&] { return rows_of("south") == Conditions{"training", "failed"}; }));
  const Outcome table = run({"members", "--at", first.http});
  CHECK(table.out.find("failed") == std::string::npos);
  CHECK(table.out.find("2 earlier lives of these members are hidden; --all shows them") != std::string::npos);
  CHECK(run({"members", "--all", "--at", first.http}).out.find("failed") != std::string::npos);
}

TEST_CASE("a peer serves health checks, metrics and a page over HTTP") {
  Asked peer({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  const auto at = Address::parse(peer.http);
  const auto get = [&](const char* path) {
    const auto answer = node::http_request(*at, "GET", path);
    REQUIRE(answer.ok());
    CHECK(answer->status == 200);
    return answer->body;
  };
  CHECK(get("/livez") == "ok\n");
  CHECK(get("/readyz") == "ok\n");
  CHECK(get("/metrics").find("\nstarling_phase{phase=\"training\"} 1\n") != std::string::npos);
  CHECK(eventually([&] { return get("/metrics").find("\nstarling_accuracy_steps ") != std::string::npos; }));
  CHECK(run({"status", "--at", peer.http}).out.find(" % at step ") != std::string::npos);
  CHECK(get("/").find("<!DOCTYPE html>") != std::string::npos);
  const json topology = json::parse(get("/api/v1/topology"));
  CHECK(topology.at("topology") == "exponential");
  CHECK(topology.at("members").size() == 1);
  const json events = json::parse(get("/api/v1/events")).at("events");
  CHECK(events.at(0).at("what") == "training");
}

TEST_CASE("a joiner continues the swarm's learning-rate schedule") {
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms", "--learning-rate", "0.1",
               "--schedule", "cosine", "--warmup", "50", "--epochs", "100"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "1h"});
  for (const Asked* asked : {&first, &second}) {
    const json status = asked->ask("status");
    const double samples = status.at("swarm_samples");
    // In the warm-up, of the latest step or the next one.
    const double rate = status.at("learning_rate").get<double>() / (0.1 / (50 * 60'000));
    CHECK((rate == Approx(samples).epsilon(1e-9) || rate == Approx(samples + 64).epsilon(1e-9)));
    if (asked == &second) CHECK(samples > status.at("samples").get<double>());
  }
  // The joiner makes at most one step itself, and its rate rises.
  const json before = second.ask("status");
  json now = before;
  while (now.at("swarm_samples") == before.at("swarm_samples")) now = second.ask("status");
  CHECK(now.at("samples").get<int>() <= 64);
  CHECK(now.at("learning_rate").get<double>() > before.at("learning_rate").get<double>());
}

TEST_CASE("an unreachable peer is exit code 1, and a wrong flag is exit code 2") {
  Asked asked({"--model", "softmax", "--pace", "5ms"});
  for (const char* command : {"members", "status", "leave"}) {
    check_fails({command, "--at", "here"}, 2, {"--at", "'here'"});
    check_fails({command, "--at", "https://127.0.0.1:1/"}, 2, {"--at", "http://"});
    check_fails({command, "--at", "127.0.0.1:0"}, 2, {"--at", "port 0"});
    check_fails({command, "--at", "127.0.0.1:1"}, 1, {"nothing listens at 127.0.0.1:1", "--http"});
    // The gossip port does not serve HTTP.
    check_fails({command, "--at", asked.address}, 1,
                {asked.address + " is a peer's --listen address", "give its --http address"});
  }
}

TEST_CASE("--at accepts a URL and a port, and STARLING_AT replaces it") {
  Asked asked({"--model", "softmax", "--name", "asked", "--pace", "5ms"});
  const std::string port = asked.http.substr(asked.http.rfind(':') + 1);
  for (const std::string& at : {"http://" + asked.http, "http://" + asked.http + "/",
                                "http://" + asked.http + "/api/v1/status?x=1", port, ":" + port}) {
    CAPTURE(at);
    CHECK(run({"status", "--at", at}).out.starts_with("asked ("));
    CHECK(run({"members"}, {{"STARLING_AT", at}}).exit_code == 0);
  }
  CHECK(run({"top", "--at", asked.http}, {{"STARLING_AT", "127.0.0.1:1"}}).exit_code == 0);
  CHECK(run({"topology", "set", "ring"}, {{"STARLING_AT", asked.http}}).exit_code == 0);
  CHECK(run({"pause"}, {{"STARLING_AT", asked.http}}).exit_code == 0);
  const Outcome wrong = run({"status"}, {{"STARLING_AT", "there"}});
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err.starts_with("starling status: STARLING_AT: "));
}

TEST_CASE("without --at, the usual address of a peer on this machine is asked") {
  const Outcome outcome = run({"status"});
  INFO(outcome.err);
  if (outcome.exit_code == 0) return;  // another peer of this machine is there
  CHECK(outcome.exit_code == 1);
  CHECK(is_one_line(outcome.err));
  CHECK(contains(outcome.err, "127.0.0.1:7180, the default of --at; start the peer with --http"));
  CHECK(contains(outcome.err, "STARLING_AT"));
}

TEST_CASE("two swarms that learn one address of each other merge") {
  Asked left({"--model", "softmax", "--name", "left", "--pace", "5ms"});
  Asked right({"--model", "softmax", "--name", "right", "--pace", "5ms"});
  Asked far({"--join", right.address, "--name", "far", "--pace", "5ms"});
  CHECK(left.ask("members").at("members").size() == 1);

  const auto at = Address::parse(left.http);
  REQUIRE(at.ok());
  const auto introduce = [&](const std::string& body) {
    const auto answer = node::http_request(*at, "POST", "/api/v1/introduce", body);
    REQUIRE(answer.ok());
    return answer->status;
  };
  CHECK(introduce("{}") == 400);
  CHECK(introduce("{\"address\":\"there\"}") == 400);
  CHECK(introduce("{\"address\":\"" + left.address + "\"}") == 400);
  CHECK(introduce("{\"address\":\"" + right.address + "\"}") == 200);
  for (Asked* asked : {&left, &right, &far}) {
    for (const Asked* other : {&left, &right, &far}) {
      if (asked != other)
        REQUIRE(asked->program.wait_for_error_text(" at " + other->address + " has joined"));
    }
    CHECK(asked->ask("members").at("members").size() == 3);
  }
}

TEST_CASE("the topology of a running swarm can be changed, also for later joiners") {
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "5ms"});
  CHECK(first.ask("status").at("topology") == "exponential");

  const Outcome set = run({"topology", "set", "ring", "--at", second.http});
  INFO(set.err);
  REQUIRE(set.exit_code == 0);
  CHECK(set.out == "the swarm's topology is now ring\n");
  CHECK(first.program.wait_for_error_text("the swarm's topology is ring from now on"));
  CHECK(first.ask("status").at("topology") == "ring");
  CHECK(second.ask("status").at("topology") == "ring");
  Asked third({"--join", first.address, "--name", "third", "--pace", "5ms"});
  CHECK(third.ask("status").at("topology") == "ring");
  for (const Asked* asked : {&first, &second}) {
    const json exchanges = asked->ask("status").at("exchanges");
    CHECK(exchanges.at("aborted") == 0);
  }

  check_fails({"topology", "set", "moebius", "--at", second.http}, 2, {"'moebius' is unknown"});
  const auto post = [&](const std::string& body) {
    const auto answer = node::http_request(*Address::parse(second.http), "POST", "/api/v1/topology", body);
    REQUIRE(answer.ok());
    return *answer;
  };
  CHECK(post("{}").status == 400);
  CHECK(post("{\"topology\": 3}").status == 400);
  CHECK(post("{\"topology\": \"moebius\"}").status == 400);
  CHECK(node::parse_error(post("{\"topology\": \"moebius\"}").body).find("'moebius' is unknown") !=
        std::string::npos);
  CHECK(second.ask("status").at("topology") == "ring");
}

TEST_CASE("a topology that the swarm cannot use is rejected") {
  Asked asked({"--model", "softmax", "--pace", "5ms", "--rule", "d-psgd"});
  check_fails({"topology", "set", "directed-exponential", "--at", asked.http}, 1, {"is directed", "d-psgd"});
  CHECK(asked.ask("status").at("topology") == "exponential");

  // A stranger states the greatest possible revision.
  transport::testing::World world;
  const auto transport = world.make_transport();
  const auto identity = *transport::Ed25519Identity::make_new("starling");
  wire::Hello stranger;
  stranger.swarm = "starling";
  stranger.name = "stranger";
  stranger.address = {"127.0.0.1", 1};
  transport::LinkTable links(world.executor(), *transport, {stranger, identity.get()}, {});
  const auto propose = [&](std::uint64_t revision, const std::string& topology) {
    wire::Rewire rewire{{revision, identity->id()}, topology, identity->key(), {}};
    rewire.signature = identity->sign(gossip::statement_of(rewire));
    links.send({{}, *Address::parse(asked.address)}, rewire);
  };
  propose(wire::kRevisionMax, "ring");
  propose(1, "hypercube");
  REQUIRE(world.until([&] { return links.counters().messages_sent == 2; }));
  REQUIRE(asked.program.wait_for_error_text("the swarm's topology is hypercube from now on"));
  CHECK(run({"topology", "set", "complete", "--at", asked.http}).exit_code == 0);
  CHECK(asked.ask("status").at("topology") == "complete");
}

TEST_CASE("an --http address that cannot be used is rejected") {
  Asked asked({"--model", "softmax", "--pace", "5ms"});
  check_fails({"peer", "--listen", "127.0.0.1:0", "--http", asked.http}, 2,
              {"--http", asked.http, "the port is in use by another program"});
  // Of TEST-NET-1 (RFC 5737), which no interface has.
  const std::string nowhere = "192.0.2.1:0: no interface of this machine has that address";
  check_fails({"peer", "--listen", "127.0.0.1:0", "--http", "192.0.2.1:0"}, 2, {"192.0.2.1:0"});
  CHECK(run({"peer", "--listen", "192.0.2.1:0"}).err.find("cannot listen at " + nowhere) !=
        std::string::npos);
  check_fails({"peer", "--http", "here"}, 2, {"--http", "'here'"});
}

TEST_CASE("with --token-always a command from the same machine needs the token, and a question does not") {
  const TemporaryFolder folder;
  folder.write("token", "0123456789abcdef\n");
  folder.write("other", "0123456789abcdeF\n");
  for (const char* name : {"token", "other"}) REQUIRE(::chmod(folder.file(name).c_str(), 0600) == 0);
  Asked asked(
      {"--model", "softmax", "--pace", "5ms", "--token-file", folder.file("token"), "--token-always"});
  CHECK(asked.ask("status").at("paused") == false);
  check_fails({"pause", "--at", asked.http}, 1, {"commands need the peer's token"});
  check_fails({"pause", "--at", asked.http, "--token-file", folder.file("other")}, 1,
              {"this is not the peer's token"});
  CHECK(asked.program.wait_for_error_text("an HTTP command from 127.0.0.1 was rejected"));
  CHECK(asked.ask("status").at("paused") == false);
  CHECK(run({"pause", "--at", asked.http, "--token-file", folder.file("token")}).exit_code == 0);
  CHECK(asked.ask("status").at("paused") == true);
}

TEST_CASE("a token is not sent to the address that a member states") {
  const TemporaryFolder folder;
  folder.write("token", "0123456789abcdef\n");
  REQUIRE(::chmod(folder.file("token").c_str(), 0600) == 0);
  Asked first({"--model", "softmax", "--name", "first", "--pace", "5ms"});
  Asked second({"--join", first.address, "--name", "second", "--pace", "5ms", "--token-file",
                folder.file("token"), "--token-always"});
  CHECK(eventually([&] { return first.ask("members").at("members").size() == 2; }));
  check_fails({"pause", "second", "--at", first.http, "--token-file", folder.file("token")}, 1,
              {"commands need the peer's token", "use --at HOST:PORT"});
  CHECK(second.ask("status").at("paused") == false);
  CHECK(run({"pause", "--at", second.http, "--token-file", folder.file("token")}).exit_code == 0);
}

TEST_CASE("an --http address that others can reach gives a warning") {
  Program program({"peer", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--model", "softmax"});
  CHECK(program.wait_for_error_text("anyone who can reach it can read this peer"));
}

}  // namespace
}  // namespace starling::cli_tests
