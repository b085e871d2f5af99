// Child processes and the launcher, with shell scripts instead of the program.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "lab/swarm/child_process.h"
#include "lab/swarm/swarm.h"
#include "tests/catch.h"
#include "tests/lab/swarm_folder.h"

namespace starling::lab {
namespace {

// All lines of the child until it closes its end.
std::vector<std::string> hear_all(ChildProcess& child) {
  std::vector<std::string> all;
  while (child.fd() >= 0) {
    pollfd waiting{child.fd(), POLLIN, 0};
    poll(&waiting, 1, -1);
    for (std::string& line : child.read_lines()) all.push_back(std::move(line));
  }
  return all;
}

ChildProcess::Exit wait_for(ChildProcess& child) {
  hear_all(child);
  while (true) {
    if (const auto exit = child.exited()) return *exit;
  }
}

TEST_CASE("a child's lines are received, it obeys commands, and its output is in its log") {
  const SwarmFolder folder;
  auto child = ChildProcess::start(
      "/bin/sh", {"-c", "echo out; echo err >&2; echo one >&3; read x <&3; echo \"got $x\" >&3"},
      folder.file("log"));
  REQUIRE(child.ok());
  child->tell("end");
  CHECK(hear_all(*child) == std::vector<std::string>{"one", "got end"});
  const auto exit = wait_for(*child);
  CHECK(exit.status == 0);
  CHECK(exit.signal == 0);
  CHECK(folder.read("log") == "out\nerr\n");
}

TEST_CASE("the end of a child is reported: its exit code, or the signal that killed it") {
  const SwarmFolder folder;
  auto failed = ChildProcess::start("/bin/sh", {"-c", "exit 7"}, folder.file("log"));
  REQUIRE(failed.ok());
  CHECK(wait_for(*failed).status == 7);
  auto killed = ChildProcess::start("/bin/sh", {"-c", "read x <&3"}, folder.file("log"));
  REQUIRE(killed.ok());
  killed->signal(SIGKILL);
  CHECK(wait_for(*killed).signal == SIGKILL);
  killed->tell("end");  // without a reader: no error
  auto absent = ChildProcess::start(folder.file("absent"), {}, folder.file("log"));
  REQUIRE(absent.ok());
  CHECK(wait_for(*absent).status == 127);
}

TEST_CASE("a child has its own process group, and inherits no file but its socket") {
  const SwarmFolder folder;
  const int ours = dup(STDERR_FILENO);  // not closed by exec
  auto child =
      ChildProcess::start("/bin/sh",
                          {"-c",
                           "echo $$ >&3; cut -d ' ' -f 5 /proc/$$/stat >&3; n=4; while [ $n -lt 64 ]; do "
                           "[ -e /proc/$$/fd/$n ] && echo $n >&3; n=$((n + 1)); done"},
                          folder.file("log"));
  close(ours);
  REQUIRE(child.ok());
  const auto said = hear_all(*child);
  REQUIRE(said.size() == 2);
  CHECK(said[0] == said[1]);  // its process and its group
}

TEST_CASE("the socket of a child that sends a megabyte without a newline is closed") {
  const SwarmFolder folder;
  auto child = ChildProcess::start("/bin/sh", {"-c", "head -c 3000000 /dev/zero >&3"}, folder.file("log"));
  REQUIRE(child.ok());
  CHECK(hear_all(*child).empty());
}

training::Experiment small_experiment() {
  training::Experiment experiment;
  experiment.peers = 2;
  experiment.model.name = "softmax";
  experiment.end.epochs = 1;
  return experiment;
}

TEST_CASE("the last message of a first peer that fails is the swarm's error, with its exit code") {
  const SwarmFolder folder;
  const auto data = two_pixels(4);
  const auto out = training::RunFolder::create(folder.file("run"), false);
  REQUIRE(out.ok());
  const SwarmOptions options{
      folder.script("program", "echo log\necho 'starling peer: no such thing' >&2\nexit 2\n")};
  const auto outcome = run_swarm(small_experiment(), softmax_plan(data), data, options, *out);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.error == "no such thing");
  CHECK_FALSE(outcome.summary.has_value());
}

TEST_CASE("both ends of a link receive its properties when a fault begins and when it ends") {
  const SwarmFolder folder;
  const auto data = two_pixels(4);
  const auto out = training::RunFolder::create(folder.file("run"), false);
  REQUIRE(out.ok());
  // Each script reports a listening port with its number, and that training has begun. It writes the received
  // lines to its log, and ends after the expected number of lines.
  const std::string program = folder.script(
      "program",
      "while [ \"$1\" != --slot ]; do shift; done\nn=${2%/3}\n"
      "echo \"{\\\"kind\\\":\\\"listening\\\",\\\"address\\\":\\\"127.0.0.1:$((n + 1))\\\"}\" >&3\n"
      "echo '{\"kind\":\"status\",\"state\":\"training\",\"steps\":1}' >&3\n"
      "lines=2; [ $n = 1 ] && lines=4\n"
      "while [ $lines -gt 0 ]; do read -r line <&3; echo \"$line\"; lines=$((lines - 1)); done\n");
  training::Experiment experiment = small_experiment();
  experiment.peers = 3;
  experiment.network.latency = std::chrono::milliseconds(1);
  experiment.faults = {{.peer = 1,
                        .kind = training::Fault::Kind::link,
                        .from = Duration{0},
                        .to = std::chrono::milliseconds(300),
                        .link = {.latency = std::chrono::milliseconds(20), .bandwidth = 1e7, .drop = 0.01}}};
  run_swarm(experiment, softmax_plan(data), data, {program}, *out);
  const std::string poor = " latency=20ms bandwidth=10Mbit/s drop=0.01\n", usual = " latency=1ms\n";
  const std::string to_1 = "link 127.0.0.1:2" + poor + "link 127.0.0.1:2" + usual;
  CHECK(folder.read("run/p0.log") == to_1);
  CHECK(folder.read("run/p2.log") == to_1);
  // The order depends on the order in which the others start.
  std::istringstream log(folder.read("run/p1.log"));
  std::multiset<std::string> received;
  for (std::string line; std::getline(log, line);) received.insert(line + "\n");
  CHECK(received == std::multiset<std::string>{"link 127.0.0.1:1" + poor, "link 127.0.0.1:1" + usual,
                                               "link 127.0.0.1:3" + poor, "link 127.0.0.1:3" + usual});
}

TEST_CASE("a swarm in which every peer joins late is an error") {
  const SwarmFolder folder;
  const auto data = two_pixels(4);
  const auto out = training::RunFolder::create(folder.file("run"), false);
  REQUIRE(out.ok());
  auto experiment = small_experiment();
  for (const std::uint32_t peer : {0U, 1U}) {
    experiment.faults.push_back({.peer = peer, .kind = training::Fault::Kind::join});
  }
  const auto outcome = run_swarm(experiment, softmax_plan(data), data, {folder.file("absent")}, *out);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.error.find("begins") != std::string::npos);
}

TEST_CASE("a run whose peers all crash is an error that names the folder of the logs") {
  const SwarmFolder folder;
  const auto data = two_pixels(4);
  const auto out = training::RunFolder::create(folder.file("run"), false);
  REQUIRE(out.ok());
  const SwarmOptions options{folder.script(
      "program",
      "echo '{\"kind\":\"listening\",\"address\":\"127.0.0.1:1\"}' >&3\necho nonsense >&3\nkill -9 $$\n")};
  const auto outcome = run_swarm(small_experiment(), softmax_plan(data), data, options, *out);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.error.find(out->path()) != std::string::npos);
}

}  // namespace
}  // namespace starling::lab
