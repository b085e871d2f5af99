// The checks of `starling doctor`: each finding is a sentence, with a remedy if there is something to do.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/check.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

struct Examined {
  int exit_code = 0;
  json checks;

  // The checks of a topic.
  std::vector<json> of(const std::string& topic) const {
    std::vector<json> found;
    for (const json& check : checks)
      if (check.at("topic") == topic) found.push_back(check);
    return found;
  }
  // Whether a check of the topic has this outcome and these words, and a remedy unless it is good.
  bool has(const std::string& topic, const std::string& outcome, const std::string& words) const {
    for (const json& check : of(topic)) {
      if (check.at("outcome") != outcome ||
          check.at("what").get<std::string>().find(words) == std::string::npos)
        continue;
      return outcome == "good" ||
             (check.at("remedy").is_string() && !check.at("remedy").get<std::string>().empty());
    }
    return false;
  }
};

Examined examine(Words flags, const Environment& environment = {}) {
  Words words = {"doctor", "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run(words, environment);
  INFO(outcome.err);
  REQUIRE((outcome.exit_code == 0 || outcome.exit_code == 1));
  CHECK(outcome.err.empty());
  const json object = json::parse(outcome.out, nullptr, false);
  REQUIRE(object.is_object());
  return {outcome.exit_code, object.at("checks")};
}

// A port that is in use.
class Taken {
 public:
  Taken() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    STARLING_CHECK(::bind(socket_, plain, length) == 0 && ::listen(socket_, 1) == 0);
    STARLING_CHECK(::getsockname(socket_, plain, &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Taken() { ::close(socket_); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_ = -1, port_ = 0;
};

TEST_CASE("doctor says whether peers can discover each other") {
  const Examined without = examine({}, {{"DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/no/such/bus"}});
  CHECK(without.has("mdns", "note", "no Avahi daemon answers on this machine"));
}

TEST_CASE("doctor checks whether a peer can listen") {
  const Taken taken;
  const Examined busy = examine({"--listen", taken.address()});
  CHECK(busy.exit_code == 1);
  CHECK(busy.has("port", "bad", "a peer cannot listen at " + taken.address() + ": Address already in use"));
  const Examined free = examine({"--listen", "127.0.0.1:0"});
  CHECK(free.exit_code == 0);
  CHECK(free.has("port", "good", "can listen at 127.0.0.1:0"));
  CHECK(examine({"--listen", "0.0.0.0:0"}).has("port", "good", "from members at which address"));
  CHECK(examine({"--listen", "192.0.2.1:7100"}).has("port", "bad", "Cannot assign requested address"));
  CHECK(examine({"--listen", "no-such-host.invalid:7100"}).has("port", "bad", "does not resolve"));
}

TEST_CASE("doctor checks clock and names") {
  const Examined found = examine({"--resolve", "localhost", "--resolve", "no-such-host.invalid"});
  CHECK(found.of("clock").size() >= 2);
  CHECK(found.exit_code == 1);
  CHECK(found.has("names", "good", "localhost is "));
  CHECK(found.has("names", "bad", "no-such-host.invalid does not resolve: "));
}

TEST_CASE("doctor lists data sets and those that cannot be read") {
  const TemporaryFolder folder;
  CHECK(examine({}).has("data", "note", "STARLING_DATA, the folder of data sets, is not set"));
  CHECK(examine({}, {{"STARLING_DATA", folder.file("")}}).has("data", "note", "holds no data set"));
  CHECK(examine({}, {{"STARLING_DATA", "/nowhere"}}).has("data", "bad", "cannot be read: No such file"));
  folder.write("points.csv",
               "a,b,label\n1,2,0\n3,4,1\n1,3,0\n3,5,1\n1,2,0\n3,4,1\n1,3,0\n3,5,1\n1,2,0\n3,4,1\n");
  folder.write("broken.csv", "a,b,label\n1,2,0\n1,oops,1\n");
  folder.write("notes.txt", "no data");
  std::filesystem::create_directory(folder.file("mnist"));
  const Examined found = examine({}, {{"STARLING_DATA", folder.file("")}});
  CHECK(found.exit_code == 1);
  CHECK(found.of("data").size() == 3);
  CHECK(found.has("data", "good", "points.csv: 9 + 1 samples, 2 classes"));
  CHECK(found.has("data", "bad", "broken.csv cannot be read: "));
  CHECK(found.has("data", "bad", "mnist cannot be read: "));
}

TEST_CASE("doctor checks the space for results and state") {
  const TemporaryFolder folder;
  folder.write("file", "");
  const Examined found =
      examine({"--out", folder.file("a/b/c"), "--state", folder.file("file"), "--checkpoints", "/proc/x"});
  CHECK(found.exit_code == 1);
  CHECK(found.of("space").size() == 3);
  // 85.6 to 85.9 MB: processors differ in their products.
  CHECK(found.has("memory", "good", "a peer with lenet on glyphs needs 85."));
  CHECK((found.has("space", "good", "a/b/c can be written") ||
         found.has("space", "note", "a/b/c can be written")));
  CHECK(found.has("space", "bad", "file cannot be created: '" + folder.file("file") + "' is not a folder"));
}

TEST_CASE("doctor checks whether a running peer would accept this machine") {
  const TemporaryFolder folder;
  folder.write("points.csv",
               "a,b,label\n1,2,0\n3,4,1\n1,3,0\n3,5,1\n1,2,0\n3,4,1\n1,3,0\n3,5,1\n1,2,0\n3,4,1\n");
  Program peer({"peer", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--name", "north", "--model",
                "softmax", "--data", folder.file("points.csv"), "--pace", "50ms"});
  const std::string http = peer.wait_for_error_word("HTTP at ");
  REQUIRE(!http.empty());
  REQUIRE(peer.wait_for_error_text("training begins"));

  const Examined welcome = examine({"--at", http, "--data", folder.file("points.csv"), "--model", "softmax"});
  CHECK(welcome.exit_code == 0);
  CHECK(welcome.has("peer", "good", "north answers: starling "));
  CHECK(welcome.has("peer", "good", "its swarm is 'starling', like ours"));
  CHECK(welcome.has("peer", "good", "this machine can reach its address: join with --join 127.0.0.1:"));
  CHECK(welcome.has("peer", "good", "its data is points, which this machine has: 9 + 1 samples"));

  const Examined refused = examine({"--at", http, "--swarm", "other", "--model", "lenet"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.has("peer", "bad", "its swarm is 'starling', and ours 'other'"));
  CHECK(refused.has("peer", "bad", "it trains softmax, not lenet"));
  CHECK(refused.has("peer", "bad", "its data is points, which this machine lacks"));
  peer.signal(SIGTERM);
  peer.finish();

  CHECK(examine({"--at", "127.0.0.1:1"}).of("peer").at(0).at("outcome") == "bad");

  const Outcome text = run({"doctor", "--at", "127.0.0.1:1"});
  CHECK(text.exit_code == 1);
  CHECK(text.out.find("\nbad   peer    ") != std::string::npos);
  const Outcome alone = run({"doctor", "--swarm", "other"});
  CHECK(alone.exit_code == 2);
  CHECK(alone.err == "starling doctor: --swarm is compared with a running peer; name one with --at\n");
}

TEST_CASE("doctor compares a running peer's key with this machine's") {
  const TemporaryFolder folder;
  const std::string key = folder.file("swarm.key"), other = folder.file("other.key");
  for (const std::string& path : {key, other}) REQUIRE(run({"key", "new", path}).exit_code == 0);
  for (const bool keyed : {true, false}) {
    Words words = {"peer",   "--listen", "127.0.0.1:0", "--http",  "127.0.0.1:0", "--swarm", "herd",
                   "--name", "north",    "--model",     "softmax", "--pace",      "50ms"};
    if (keyed) words.insert(words.end(), {"--key", key});
    Program peer(words);
    const std::string http = peer.wait_for_error_word("HTTP at ");
    REQUIRE(peer.wait_for_error_text("training begins"));
    const Words at = {"--at", http, "--swarm", "herd"};
    const auto with = [&](const std::string& path) {
      Words more = at;
      more.insert(more.end(), {"--key", path});
      return examine(more);
    };
    if (keyed) {
      CHECK(with(key).exit_code == 0);
      CHECK(with(key).has("key", "good", "it has the same key as this machine"));
      const Examined without = examine(at);
      CHECK(without.exit_code == 1);
      CHECK(without.has("key", "bad", "belongs to a swarm with a key, and this machine has none"));
      CHECK(without.of("key").at(0).at("remedy").get<std::string>().find("--key or STARLING_KEY") !=
            std::string::npos);
      CHECK(with(other).exit_code == 1);
      CHECK(with(other).has("key", "bad", "has another key than " + other));
      // The swarm's name differs; the key is compared nevertheless.
      const Examined elsewhere = examine({"--at", http, "--swarm", "flock", "--key", key});
      CHECK(elsewhere.has("peer", "bad", "its swarm is 'herd', and ours 'flock'"));
      CHECK(elsewhere.has("key", "good", "the same key"));
    } else {
      CHECK(examine(at).has("key", "good", "neither its swarm nor this machine has a key"));
      const Examined keyed_alone = with(key);
      CHECK(keyed_alone.exit_code == 1);
      CHECK(keyed_alone.has("key", "bad", "has no key, and this machine has one"));
      const Outcome by_variable = run({"doctor", "--at", http, "--swarm", "herd"}, {{"STARLING_KEY", key}});
      CHECK(by_variable.exit_code == 1);
      CHECK(by_variable.out.find("bad   key     north at ") != std::string::npos);
    }
    peer.signal(SIGTERM);
    CHECK(peer.finish().exit_code == 0);
  }
  const Outcome none = run({"doctor", "--key", folder.file("none")});
  CHECK(none.exit_code == 2);
  CHECK(is_one_line(none.err));
  CHECK(none.err.find("starling doctor: --key: ") == 0);
  CHECK(none.err.find(folder.file("none") + " cannot be read") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
