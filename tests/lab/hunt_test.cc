#include "lab/hunt/hunt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/check.h"
#include "tests/catch.h"
#include "tests/seeds.h"

namespace starling::lab {
namespace {

// A hunt of seeds(all), from the first fresh one.
HuntOptions fresh_hunt(std::uint64_t all) {
  HuntOptions options;
  options.from = first_seed();
  options.to = options.from + seeds(all);
  options.threads = 2;
  return options;
}

}  // namespace

TEST_CASE("a swarm satisfies all statements under every kind of fault") {
  for (const std::string& faults : Faults::names()) {
    HuntOptions options = fresh_hunt(40);
    options.faults = faults;
    const HuntOutcome outcome = hunt(options);
    CAPTURE(faults);
    if (outcome.failure) FAIL(hunt_text(options, outcome));
    REQUIRE(outcome.totals.seeds == seeds(40));
    REQUIRE(outcome.totals.exchanges_completed > 100 * seeds(40));
  }
}

TEST_CASE("the story of any seed can be told") {
  const HuntOptions options = fresh_hunt(20);
  for (std::uint64_t seed = options.from; seed < options.to; ++seed) {
    std::string story;
    CHECK_FALSE(hunt_seed(options, seed, &story).violation);
    CHECK(story.size() > 1000);
  }
}

TEST_CASE("a swarm satisfies all statements under every rule") {
  for (const RuleTraits& traits : kRules) {
    if (!traits.exchanges()) continue;
    HuntOptions options = fresh_hunt(10);
    options.rule = rule_named(traits.name);
    const HuntOutcome outcome = hunt(options);
    if (outcome.failure) FAIL(hunt_text(options, outcome));
    REQUIRE(outcome.totals.exchanges_completed > 0);
  }
}

TEST_CASE("seeds that once violated a statement satisfy all of them") {
  struct Once {
    std::uint64_t seed;
    std::optional<Rule> rule{};
  };
  for (const Once& once : {
           Once{186}, Once{1145}, Once{1258}, Once{1410},  // lock-step: skipped rounds in which a peer
                                                           // waited, links that had changed
           Once{525, Rule::d_psgd}, Once{781, Rule::d_psgd},
           Once{879, Rule::d_psgd},  // lock-step: views differed, and neighbors waited in a circle
           Once{2152},               // lock-step: a dead connection delayed the responder
           Once{1179}, Once{428},    // noloco: a slow peer was always rejected as far behind
           Once{1242},               // pairwise: replicas that shrank to zero rejected good ones
           Once{15815968},           // the only peer that could be dialed withdrew its address
           Once{122722600190376},    // push-sum: a poisoned chunk that was sent back counted as accepted
           Once{777000782},          // choco: partners that no longer came kept a replica from all others
       }) {
    CAPTURE(once.seed);
    HuntOptions options;
    options.from = once.seed;
    options.to = once.seed + 1;
    options.rule = once.rule;
    options.threads = 1;
    const HuntOutcome outcome = hunt(options);
    if (outcome.failure) FAIL(hunt_text(options, outcome));
  }
}

TEST_CASE("a seed replays to the same run, with or without its story; another seed gives another run") {
  const HuntOptions options;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    std::string story, again;
    const auto told = hunt_seed(options, seed, &story);
    REQUIRE(told.trace_hash == hunt_seed(options, seed).trace_hash);
    REQUIRE(told.trace_hash == hunt_seed(options, seed, &again).trace_hash);
    REQUIRE(told.trace_hash != hunt_seed(options, seed + 1).trace_hash);
    REQUIRE(story == again);
  }
}

TEST_CASE("a story describes the incidents, the events and the final views") {
  HuntOptions options;
  options.faults = "crash";
  options.peers = 5;
  std::string story;
  hunt_seed(options, 2, &story);
  for (const char* part :
       {"Incidents:", "What happens:", "p0 trains", " knows of p", "requests the parameters of p",
        "begins exchange 1 with", "is completed", "suspects p", "considers failed p", "The views at"}) {
    CAPTURE(part);
    CHECK(story.find(part) != std::string::npos);
  }
}

TEST_CASE("the command line that replays a seed has exactly the necessary options") {
  HuntOptions options;
  options.from = 5;
  options.to = 100;
  CHECK(replay_line(options, 17) == "starling hunt --seeds 17..18 --faults all");
  options.peers = 5;
  options.faults = "links";
  CHECK(replay_line(options, 17) == "starling hunt --seeds 17..18 --faults links --peers 5");
  options.rule = Rule::push_sum;
  CHECK(replay_line(options, 17) == "starling hunt --seeds 17..18 --faults links --peers 5 --rule push-sum");
}

TEST_CASE("a hunt that ends by an assertion prints the command line that replays its seed") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    HuntOptions options;
    options.from = 5;
    options.to = 6;
    options.threads = 1;
    options.faults = "none";
    options.progress = [](std::uint64_t) { check_failed("a bug", "somewhere.cc", 1); };
    hunt(options);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char piece[512];
  for (ssize_t n = 0; (n = ::read(ends[0], piece, sizeof piece)) > 0;)
    said.append(piece, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGABRT);
  REQUIRE(said.find("assertion failed: a bug") != std::string::npos);
  REQUIRE(said.find("starling hunt --seeds 5..6 --faults none\n") != std::string::npos);
}

}  // namespace starling::lab
