// Swarms with a key, as real processes: which peers can join and which are rejected.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

std::string new_key(const TemporaryFolder& folder, const std::string& name) {
  const Outcome made = run({"key", "new", folder.file(name)});
  REQUIRE(made.exit_code == 0);
  CHECK(is_one_line(made.out));
  return folder.file(name);
}

Words beginner(Words more = {}) {
  Words words = {"peer",   "--listen", "127.0.0.1:0", "--model", "softmax",
                 "--pace", "5ms",      "--every",     "always"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A peer that is rejected reports why, and ends.
void check_kept_out(const std::string& address, const Words& more, const std::string& why) {
  Words words = {"peer", "--listen", "127.0.0.1:0", "--join", address};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run(words);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  const std::size_t last = outcome.err.rfind("starling peer: ");
  REQUIRE(last != std::string::npos);
  const std::string sentence = outcome.err.substr(last);
  CHECK(is_one_line(sentence));
  CHECK(contains(sentence, address));
  CHECK(contains(sentence, why));
}

}  // namespace

TEST_CASE("only peers with the key can join, and others are counted") {
  const TemporaryFolder folder;
  const std::string key = new_key(folder, "key"), other = new_key(folder, "other");
  Program first(beginner({"--key", key, "--http", "127.0.0.1:0"}));
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second({"peer", "--listen", "127.0.0.1:0", "--join", address}, {{"STARLING_KEY", key}});
  REQUIRE(second.wait_for_error_text("training begins"));

  check_kept_out(address, {"--key", other}, "has another key than this peer");
  check_kept_out(address, {"--key", key, "--swarm", "herd"}, "or belongs to another swarm");
  check_kept_out(address, {}, "this swarm has a key; a peer of it is started with --key");

  const auto refused = json::parse(run({"status", "--at", http, "--json"}).out).at("connections_refused");
  CHECK(refused.at("wrong key") == 2);
  CHECK(refused.at("no key") == 1);

  REQUIRE(second.wait_for_error_text("2 members"));
  second.signal(SIGTERM);
  CHECK(second.finish().exit_code == 0);
  first.signal(SIGTERM);
  const Outcome outcome = first.finish();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "refused a connection: "));
  CHECK(contains(outcome.err, "another key 2"));
  CHECK(contains(outcome.err, "without a key 1"));
  CHECK_FALSE(contains(outcome.err, "without --key"));
}

TEST_CASE("a running swarm changes its key without a failed exchange, and the former key is rejected then") {
  const TemporaryFolder folder;
  const std::string key = new_key(folder, "key");
  const auto copy_to = [&](const std::string& name) {
    std::filesystem::copy_file(key, folder.file(name), std::filesystem::copy_options::overwrite_existing);
    return folder.file(name);
  };
  const std::string former = copy_to("former"), others = copy_to("others");
  Program first(beginner({"--key", key, "--http", "127.0.0.1:0"}));
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second({"peer", "--listen", "127.0.0.1:0", "--pace", "5ms", "--join", address, "--key", others});
  REQUIRE(second.wait_for_error_text("training begins"));
  for (std::size_t step = 1; step <= 3; ++step) {
    CAPTURE(step);
    const Outcome rotated = run({"key", "rotate", key});
    CHECK(rotated.exit_code == 0);
    CHECK(is_one_line(rotated.out));
    CHECK(contains(rotated.out, "step " + std::to_string(step) + " of 3"));
    REQUIRE(first.wait_for_error_text("the keys were read again", step));
    copy_to("others");
    REQUIRE(second.wait_for_error_text("the keys were read again", step));
  }
  check_kept_out(address, {"--key", former}, "has another key than this peer");
  Program third({"peer", "--listen", "127.0.0.1:0", "--join", address, "--key", copy_to("third")});
  REQUIRE(third.wait_for_error_text("training begins"));
  REQUIRE(first.wait_for_error_text("3 members"));
  const auto exchanges = json::parse(run({"status", "--at", http, "--json"}).out).at("exchanges");
  CHECK(exchanges.at("completed") > 10);
  CHECK(exchanges.at("aborted") == 0);
  for (Program* program : {&third, &second, &first}) {
    program->signal(SIGTERM);
    CHECK(program->finish().exit_code == 0);
  }
}

TEST_CASE("a peer with a key cannot join a swarm without one") {
  const TemporaryFolder folder;
  Program first(beginner());
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  check_kept_out(address, {"--key", new_key(folder, "key")}, "has no key, and this peer has one");
  first.signal(SIGTERM);
  const Outcome outcome = first.finish();
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "has a key (it uses TLS), and this peer has none"));
  CHECK(contains(outcome.err, "another key 1"));
}

TEST_CASE("a peer that returns with a wrong key does not begin a second swarm") {
  const TemporaryFolder folder;
  const std::string key = new_key(folder, "key"), other = new_key(folder, "other");
  for (const bool swarm_has_key : some_of({true, false})) {
    const std::string state = folder.file(swarm_has_key ? "locked" : "open");
    const Words keyed = swarm_has_key ? Words{"--key", key} : Words{};
    Program stays(beginner(keyed));
    const std::string address = stays.wait_for_error_word(" listens at ");
    REQUIRE(stays.wait_for_error_text("training begins"));
    const auto returns = [&](const Words& join, const Words& with) {
      Words words = {"peer", "--listen", "127.0.0.1:0", "--state", state, "--begin-after", "500ms"};
      for (const Words& more : {join, with}) words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    Program member(returns({"--join", address}, keyed));
    REQUIRE(member.wait_for_error_text("training begins"));
    member.signal(SIGTERM);  // it writes its cache before it ends
    REQUIRE(member.finish().exit_code == 0);

    const std::vector<Words> wrong =
        swarm_has_key ? std::vector<Words>{{"--key", other}, {}} : std::vector<Words>{{"--key", key}};
    for (const Words& with : wrong) {
      const Outcome outcome = run(returns({}, with));
      INFO(outcome.err);
      CHECK(outcome.exit_code == 1);
      const std::size_t last = outcome.err.rfind("starling peer: ");
      REQUIRE(last != std::string::npos);
      const std::string sentence = outcome.err.substr(last);
      CHECK(is_one_line(sentence));
      CHECK(contains(sentence, "does not let it in, so it does not begin the run anew: "));
      CHECK(contains(sentence, address));
      CHECK(contains(sentence, "--key"));
      CHECK_FALSE(contains(outcome.err, "training begins"));
    }
    Program back(returns({}, keyed));
    CHECK(back.wait_for_error_text("training begins"));
    CHECK(back.wait_for_error_text("2 members"));
  }
}

TEST_CASE("a swarm passes its key to its peers") {
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  const Outcome outcome = run({"swarm", "--peers", "3", "--model", "softmax", "--steps", "40", "--pace",
                               "10ms", "--key", new_key(folder, "key"), "--out", out, "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_FALSE(contains(outcome.out, "\"completed\":0,"));
  CHECK_FALSE(contains(read_whole(out + "/p0.log"), "refused a connection"));
}

TEST_CASE("an unusable key file is one line and exit code 2") {
  const TemporaryFolder folder;
  folder.write("empty", "");
  folder.write("words", "open sesame\n");
  folder.write("short", "AAECAwQFBgcICQoLDA0ODw==\n");
  for (const char* name : {"empty", "words", "short"}) REQUIRE(::chmod(folder.file(name).c_str(), 0600) == 0);
  const std::string shared = new_key(folder, "shared");
  REQUIRE(::chmod(shared.c_str(), 0644) == 0);
  struct Case {
    const char* name;
    const char* said;
  };
  for (const Case& bad : {Case{"nowhere", "cannot be read"},
                          {"empty", "is empty"},
                          {"words", "does not contain a key"},
                          {"short", "is too short"},
                          {"shared", "chmod 600"}}) {
    const std::string path = folder.file(bad.name);
    for (const char* command : {"peer", "swarm"}) {
      for (const Outcome& outcome : {run({command, "--key", path, "--steps", "1"}),
                                     run({command, "--steps", "1"}, {{"STARLING_KEY", path}})}) {
        INFO(outcome.err);
        CHECK(outcome.exit_code == 2);
        CHECK(is_one_line(outcome.err));
        CHECK(contains(outcome.err, path));
        CHECK(contains(outcome.err, bad.said));
      }
    }
  }
  const Outcome again = run({"key", "new", shared});
  CHECK(again.exit_code == 2);
  CHECK(contains(again.err, "already exists"));
  const Outcome unwritable = run({"key", "new", folder.file("no/such/folder")});
  CHECK(unwritable.exit_code == 2);
  CHECK(is_one_line(unwritable.err));
}

TEST_CASE("all-reduce rejects a key") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"swarm", "--rule", "all-reduce", "--steps", "1", "--key",
                               new_key(folder, "key"), "--out", folder.file("run")});
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(contains(outcome.err, "--key cannot be combined with --rule all-reduce"));
}

TEST_CASE("a public --listen address without a key gives a warning") {
  const TemporaryFolder folder;
  const std::string key = new_key(folder, "key");
  const Words open = {"--listen", "0.0.0.0:0", "--advertise", "127.0.0.1:7100", "--steps", "1"};
  const auto told = [&](Words more) {
    Words words = {"peer", "--model", "softmax"};
    words.insert(words.end(), open.begin(), open.end());
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return contains(outcome.err, "--listen 0.0.0.0:0 without --key: ");
  };
  CHECK(told({}));
  CHECK_FALSE(told({"--key", key}));
}

}  // namespace starling::cli_tests
