// A peer leaves in order within three seconds of the request, in every phase. These tests measure time, by
// Beats.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/ids.h"
#include "node/front/http_client.h"
#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"
#include "tests/cli/silent_port.h"

namespace starling::cli_tests {
namespace {

constexpr std::chrono::seconds kLimit{3};

void check_leaves(Program& program, int number = SIGTERM) {
  program.signal(number);
  const auto outcome = program.finish_within(kLimit);
  INFO(program.error_text());
  REQUIRE(outcome.has_value());
  CHECK(outcome->exit_code == 0);
}

Words softmax_peer(Words more) {
  Words words = {"peer", "--listen", "127.0.0.1:0", "--model", "softmax"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("a peer leaves within three seconds while it searches its swarm") {
  Program alone(softmax_peer({"--join", "127.0.0.1:1"}));
  REQUIRE(alone.wait_for_error_text("listens at"));
  check_leaves(alone);
  const SilentPort silent;
  Program waiting({"peer", "--listen", "127.0.0.1:0", "--join", silent.address()});
  REQUIRE(waiting.wait_for_error_text("listens at"));
  check_leaves(waiting, SIGINT);
}

TEST_CASE("a peer leaves within three seconds while it reads its data") {
  Program beginner(softmax_peer({"--http", "127.0.0.1:0"}));
  REQUIRE(beginner.wait_for_error_text("HTTP at"));  // logged before the data is read
  check_leaves(beginner);

  Program swarm(softmax_peer({"--pace", "5ms"}));
  const std::string address = swarm.wait_for_error_word(" listens at ");
  REQUIRE(swarm.wait_for_error_text("training begins"));
  Program joiner({"peer", "--listen", "127.0.0.1:0", "--join", address});
  REQUIRE(joiner.wait_for_error_text("the swarm trains"));  // logged before the data is read
  check_leaves(joiner);
  check_leaves(swarm);
}

TEST_CASE("a peer leaves within three seconds while it trains, and saves its replica") {
  const TemporaryFolder folder;
  Program alone(softmax_peer({"--out", folder.file("out"), "--name", "alone"}));
  REQUIRE(alone.wait_for_error_text("training begins"));
  check_leaves(alone);
  CHECK(std::filesystem::exists(folder.file("out/alone.safetensors")));

  Program first(softmax_peer({"--every", "always", "--out", folder.file("out"), "--name", "first", "--state",
                              folder.file("first")}));
  const std::string address = first.wait_for_error_word(" listens at ");
  Program second({"peer", "--listen", "127.0.0.1:0", "--join", address, "--name", "second"});
  REQUIRE(second.wait_for_error_text("training begins"));
  REQUIRE(first.wait_for_error_text("has joined"));
  check_leaves(first);
  CHECK(std::filesystem::exists(folder.file("out/first.safetensors")));
  CHECK(read_whole(folder.file("first/peers.json")).find("\"second\"") != std::string::npos);
  CHECK(second.wait_for_error_text("has left"));
  check_leaves(second, SIGINT);
}

TEST_CASE("a model that cannot be written where it was wanted goes to the current folder, with exit code 1") {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  Program alone(softmax_peer({"--out", out, "--name", "alone"}), {}, folder.path());
  REQUIRE(alone.wait_for_error_text("training begins"));
  std::filesystem::remove(out);
  folder.write("out", "not a folder");
  alone.signal(SIGTERM);
  const auto outcome = alone.finish_within(kLimit);
  REQUIRE(outcome.has_value());
  INFO(outcome->err);
  CHECK(outcome->exit_code == 1);
  CHECK(outcome->err.find("could not be written to " + out +
                          "/alone.safetensors; they are in "
                          "./alone.safetensors") != std::string::npos);
  CHECK(std::filesystem::exists(folder.file("alone.safetensors")));
}

TEST_CASE("a peer leaves within three seconds while its only neighbor is frozen") {
  Program first(softmax_peer({"--every", "always"}));
  const std::string address = first.wait_for_error_word(" listens at ");
  Program second({"peer", "--listen", "127.0.0.1:0", "--join", address});
  REQUIRE(second.wait_for_error_text("training begins"));
  second.signal(SIGSTOP);
  check_leaves(first);
  second.signal(SIGCONT);
  check_leaves(second);
}

TEST_CASE("a peer leaves within three seconds in a step that takes an hour") {
  Program slow(softmax_peer({"--pace", "1h"}));
  REQUIRE(slow.wait_for_error_text("training begins"));
  check_leaves(slow);
}

TEST_CASE("a peer leaves within three seconds while it settles") {
  // The first soon finishes its steps; the second is frozen, so the first has no partner to settle with.
  Program first(softmax_peer({"--every", "always", "--steps", "50", "--pace", "20ms"}));
  const std::string address = first.wait_for_error_word(" listens at ");
  Program second({"peer", "--listen", "127.0.0.1:0", "--join", address});
  REQUIRE(second.wait_for_error_text("training begins"));
  second.signal(SIGSTOP);
  REQUIRE(first.wait_for_error_text("settling"));
  check_leaves(first);
  second.signal(SIGCONT);
  check_leaves(second);
}

TEST_CASE("a peer leaves within three seconds despite an endless HTTP request") {
  Program program(softmax_peer({"--http", "127.0.0.1:0"}));
  const std::string http = program.wait_for_error_word("HTTP at ");
  REQUIRE(program.wait_for_error_text("training begins"));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(http.substr(http.find(':') + 1))));
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  const std::string begun = "GET /api/v1/status HTTP/1.1\r\nX-Half: ";
  REQUIRE(::send(fd, begun.data(), begun.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(begun.size()));
  program.signal(SIGTERM);
  std::optional<Outcome> outcome;
  for (const Beats beats; !outcome && beats.passed() < kLimit;) {
    (void)!::send(fd, "x", 1, MSG_NOSIGNAL);
    outcome = program.finish_within(std::chrono::milliseconds(20));
  }
  ::close(fd);
  REQUIRE(outcome.has_value());
  CHECK(outcome->exit_code == 0);
}

// A peer that trains and whose replica is to be saved as FOLDER/out/a.safetensors.
Words saving_peer(const TemporaryFolder& folder) {
  return softmax_peer({"--http", "127.0.0.1:0", "--out", folder.file("out"), "--name", "a"});
}

TEST_CASE("signals that arrive together, as launchers send them, are one request") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    Program program(saving_peer(folder));
    REQUIRE(program.wait_for_error_text("training begins"));
    program.signal(number);
    program.signal(SIGINT);
    check_leaves(program, number);
    CHECK(std::filesystem::exists(folder.file("out/a.safetensors")));
  }
}

TEST_CASE("a peer whose log nobody reads goes on, and leaves with its replica") {
  const TemporaryFolder folder;
  Program program(saving_peer(folder));
  const std::string http = program.wait_for_error_word("HTTP at ");
  REQUIRE(program.wait_for_error_text("training begins"));
  program.clog_errors();
  const auto steps = [&] {
    return run_json({"status", "--at", http, "--json"}).at("steps").get<std::uint64_t>();
  };
  const std::uint64_t before = steps();
  CHECK(eventually([&] { return steps() > before; }));
  program.signal(SIGTERM);
  REQUIRE(program.ends_unread_within(kLimit));
  CHECK(program.finish().exit_code == 0);
  CHECK(std::filesystem::exists(folder.file("out/a.safetensors")));
}

TEST_CASE("a log that is read again says how many lines were dropped") {
  Program program(softmax_peer({"--http", "127.0.0.1:0"}));
  const std::string http = program.wait_for_error_word("HTTP at ");
  REQUIRE(program.wait_for_error_text("training begins"));
  program.clog_errors();
  // More lines than are kept for the reader.
  for (int k = 0; k < 5000; ++k)
    for (const char* command : {"/api/v1/pause", "/api/v1/resume"})
      REQUIRE(node::http_request(*Address::parse(http), "POST", command)->status == 200);
  REQUIRE(program.wait_for_error_text(" lines of the log were dropped, because nobody read standard error"));
  check_leaves(program);
}

TEST_CASE("a peer whose log has no reader any more leaves with its replica") {
  const TemporaryFolder folder;
  Program program(saving_peer(folder));
  REQUIRE(program.wait_for_error_text("training begins"));
  program.close_errors();
  check_leaves(program);
  CHECK(std::filesystem::exists(folder.file("out/a.safetensors")));
}

// The exit code of a peer that searches its swarm and gets this signal, and once more a second later.
int exit_code_after_two(int number) {
  const SilentPort silent;
  Program program({"peer", "--listen", "127.0.0.1:0", "--join", silent.address()});
  REQUIRE(program.wait_for_error_text("listens at"));
  program.signal(number);
  if (const auto outcome = program.finish_within(kSecondCtrlC)) return outcome->exit_code;
  program.signal(number);
  return program.finish().exit_code;
}

TEST_CASE("a Ctrl-C a second after the first ends a peer at once") {
  const int code = exit_code_after_two(SIGINT);
  CHECK((code == 130 || code == 0));  // 0: it left within the second
}

TEST_CASE("a SIGTERM a second after the first is no second Ctrl-C") {
  CHECK(exit_code_after_two(SIGTERM) == 0);
}

}  // namespace
}  // namespace starling::cli_tests
