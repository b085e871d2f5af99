// A swarm on a busy machine.
#include <sched.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

// Threads that each keep a processor busy for the lifetime of the object.
class Burners {
 public:
  explicit Burners(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~Burners() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Burners(const Burners&) = delete;
  Burners& operator=(const Burners&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

unsigned processors() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return static_cast<unsigned>(CPU_COUNT(&set));
}

// Trains three peers for some seconds; they must finish. Returns whether none was suspected.
bool all_keep_their_heartbeats() {
  const TemporaryFolder folder;
  const Outcome outcome = run({"swarm", "--peers", "3", "--workers", std::to_string(processors() + 1),
                               "--model", "mlp", "--seconds", "4", "--out", folder.file("run"), "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto summary = nlohmann::json::parse(outcome.out);
  REQUIRE(summary.at("per_peer").size() == 3);
  for (const auto& peer : summary.at("per_peer")) CHECK(peer.at("state") == "finished");
  bool suspected = false;
  for (const char* peer : {"p0", "p1", "p2"}) {
    const std::string log = read_whole(folder.file(std::string("run/") + peer + ".log"));
    CHECK(log.find("training begins") != std::string::npos);
    CHECK(log.find("has failed") == std::string::npos);
    suspected = suspected || log.find("is suspected to be down") != std::string::npos;
  }
  return !suspected;
}

TEST_CASE("peers with more workers than processors keep their heartbeats on a busy machine", "[figures]") {
  const Burners burners(processors());
  // The host can delay a virtual machine for seconds, which is not an error of the peers.
  CHECK(eventually(all_keep_their_heartbeats));
}

}  // namespace
}  // namespace starling::cli_tests
