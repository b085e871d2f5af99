#include "training/runs/experiment/fault.h"

#include <limits>

#include "tests/training/experiments.h"

namespace starling::training {

TEST_CASE("a slow peer is read from PEER=FACTOR with or without its times") {
  REQUIRE(*parse_slow("3=10") == Fault{.peer = 3, .factor = 10});
  REQUIRE(*parse_slow("0=2.5@5s..60s") ==
          Fault{.factor = 2.5, .from = std::chrono::seconds(5), .to = std::chrono::seconds(60)});
  REQUIRE(*parse_slow("0=2@1.5s..") == Fault{.factor = 2, .from = std::chrono::milliseconds(1500)});
  REQUIRE(*parse_slow("0=2@5..7") ==
          Fault{.factor = 2, .from = std::chrono::seconds(5), .to = std::chrono::seconds(7)});
  REQUIRE(*parse_slow("all=log-normal:sigma=1@5s..") ==
          Fault{.peer = Fault::kAll,
                .factor = *Slowness::parse("log-normal:sigma=1"),
                .from = std::chrono::seconds(5)});
  for (const char* text :
       {"3=10", "3=1.5@0s..1500ms", "3=2@90s..", "all=exponential:per=peer", "0=pareto:alpha=2@1s..2s"})
    REQUIRE(format_slow(*parse_slow(text)) == text);
  for (const char* text :
       {"", "3", "=", "3=", "=3", "x=3", "-1=3", "3=0.5", "3=nan", "3=2@", "3=2@5s", "3=2@5s..5s",
        "3=2@6s..5s", "3=2@x..y", "100000=2", "every=2", "3=normal", "all=log-normal"}) {
    INFO(text);
    REQUIRE(!parse_slow(text).ok());
    REQUIRE(contains(parse_slow(text).error().message, "PEER=FACTOR"));
  }
}

TEST_CASE("a peer sends poison for a while, and another has bad links") {
  Experiment e;
  const Status status =
      read_text_of(e,
                   "[[fault]]\npeer = 3\npoison = \"sign-flip\"\nfrom = \"2s\"\nto = \"5s\"\n"
                   "[[fault]]\npeer = 2\npoison = nan\n"
                   "[[fault]]\npeer = 1\nfrom = 7\nlink = { latency = \"20ms\", "
                   "bandwidth = \"10Mbit/s\", drop = 0.01 }\n"
                   "[[fault]]\npeer = 0\n[fault.link]\nlatency = \"1s\"\n");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  using namespace std::chrono_literals;
  REQUIRE(e.faults.size() == 4);
  REQUIRE(e.faults[0] ==
          Fault{.peer = 3, .kind = Fault::Kind::poison, .from = 2s, .to = 5s, .poison = "sign-flip"});
  REQUIRE(e.faults[1] == Fault{.peer = 2, .kind = Fault::Kind::poison, .poison = "nan"});
  REQUIRE(e.faults[2] == Fault{.peer = 1,
                               .kind = Fault::Kind::link,
                               .from = 7s,
                               .link = {.latency = 20ms, .bandwidth = 1e7, .drop = 0.01}});
  REQUIRE(e.faults[3] == Fault{.kind = Fault::Kind::link, .link = {.latency = 1s}});
}

TEST_CASE("random slowness applies to one peer or to all") {
  Experiment e;
  const Status status = read_text_of(e,
                                     "[[fault]]\npeer = \"all\"\nslow = \"log-normal:sigma=1\"\n"
                                     "[[fault]]\npeer = 2\nslow = \"exponential:per=peer\"\nfrom = 3\n"
                                     "[[fault]]\npeer = \"all\"\nlink = { drop = 0.5 }\n");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  REQUIRE(e.faults.size() == 3);
  REQUIRE(e.faults[0].concerns(0));
  REQUIRE(e.faults[0].concerns(3));
  REQUIRE(e.faults[0].factor.text() == "log-normal:sigma=1");
  REQUIRE(e.faults[1].factor.text() == "exponential:per=peer");
  REQUIRE_FALSE(e.faults[1].concerns(3));
  REQUIRE(check(e).ok());
  Experiment other;
  const Status bad = read_text_of(other, "[[fault]]\npeer = 1\nslow = \"log-normal\"\n");
  REQUIRE_FALSE(bad.ok());
  REQUIRE(
      contains(bad.error().message, "fault.slow: 'log-normal': sigma is missing; expected a factor from 1"));
  const Status nobody = read_text_of(other, "[[fault]]\npeer = \"any\"\nslow = 2\n");
  REQUIRE_FALSE(nobody.ok());
  REQUIRE(contains(nobody.error().message, ", or all"));
}

TEST_CASE("recurring faults, links between groups, and settings of single peers are read and written") {
  using namespace std::chrono_literals;
  Experiment e;
  const Status status = read_text_of(e, R"(
peers = 9
[[peer]]
number = [6, 7]
workers = 2
pace = "80ms"
[[peer]]
number = 3
device = "cuda:1"
recompute = true
[[fault]]
peer = "all"
pause = true
every = "10s"
length = "2s"
to = "1h"
[[fault]]
peer = "all"
churn = { crashes_per_minute = 0.5, leaves_per_minute = 1, back_after = "20s" }
[[fault]]
peer = [2, 1]
crash = true
from = "5s"
back_after = 30
[[fault]]
peer = "0-3"
other = [4, 5, 6, 8]
link = { bandwidth = "10Mbit/s" }
)");
  REQUIRE((status.ok() ? "" : status.error().message) == std::string());
  REQUIRE(check(e).ok());
  REQUIRE(e.own == std::vector<OwnSettings>{
                       {*PeerSet::parse("6-7"), {{"training.pace", "80ms"}, {"training.workers", "2"}}},
                       {3, {{"training.device", "cuda:1"}, {"training.recompute", "true"}}}});
  REQUIRE(of_peer(e, 7).training.workers == 2);
  REQUIRE(of_peer(e, 7).training.pace == 80ms);
  REQUIRE(of_peer(e, 5).training.workers == 1);
  REQUIRE(of_peer(e, 3).training.device == "cuda:1");
  REQUIRE(e.faults[0] ==
          Fault{.peer = Fault::kAll, .kind = Fault::Kind::pause, .to = 1h, .every = 10s, .length = 2s});
  REQUIRE(e.faults[1] == Fault{.peer = Fault::kAll,
                               .kind = Fault::Kind::churn,
                               .churn = {0.5, 1, std::optional<Duration>(20s)}});
  REQUIRE(e.faults[2] ==
          Fault{.peer = *PeerSet::parse("1-2"), .kind = Fault::Kind::crash, .from = 5s, .back_after = 30s});
  REQUIRE(e.faults[3].other->text() == "4-6,8");
  REQUIRE(e.faults[3].concerns_link(5, 2));
  REQUIRE_FALSE(e.faults[3].concerns_link(1, 2));
  Experiment back;
  REQUIRE(read_text_of(back, to_toml(e)).ok());
  REQUIRE(back == e);
}

TEST_CASE("contradicting keys of a fault, and settings that a single peer cannot have, are rejected") {
  const auto refused = [](const std::string& toml, const std::string& sentence) {
    INFO(toml);
    Experiment e;
    Status status = read_text_of(e, toml);
    if (status.ok()) status = check(e);
    REQUIRE_FALSE(status.ok());
    INFO(status.error().message);
    REQUIRE(contains(status.error().message, sentence));
    REQUIRE_FALSE(contains(status.error().message, "\n"));
  };
  const std::string fault = "[[fault]]\npeer = 1\n", pause = fault + "pause = true\n";
  refused(pause + "every = '10s'\n", "line 1: fault: 'every' needs a 'length'");
  refused(pause + "length = '1s'\n", "'length' needs an 'every'");
  refused(pause + "every = '1s'\nlength = '1s'\n", "a pause of 1s every 1s would never end");
  refused(pause + "every = '0s'\nlength = '0s'\n", "must be longer than 0s");
  refused(fault + "slow = 2\nevery = '2s'\nlength = '1s'\n", "only pause has 'every' and 'length'");
  refused(fault + "slow = 2\nother = 2\n", "only link has 'other'");
  refused(fault + "other = 1\nlink = { drop = 0.1 }\n", "peer 1 has no link to itself");
  refused(fault + "other = 9\nlink = { drop = 0.1 }\n",
          "'other': peer 9 does not exist; 4 peers are numbered from 0 to 3");
  refused("[[fault]]\npeer = [1, 7]\nslow = 2\n", "peer 7 does not exist; 4 peers");
  refused("[[fault]]\npeer = '3-1'\nslow = 2\n", "'3-1' runs backwards");
  refused("[[fault]]\npeer = [0, 1, 2, 3]\ncrash = true\n",
          "only slow, pause, link and churn can concern all peers");
  refused(fault + "slow = 2\nback_after = '3s'\n",
          "only crash, leave and the table of churn have 'back_after'");
  refused(fault + "crash = true\nback_after = '0s'\n", "'back_after' is not between 0s");
  refused(fault + "crash = true\nto = '2s'\n", "only slow, pause, poison, link and churn have fault.to");
  refused(fault + "churn = {}\n",
          "expected a table with some of crashes_per_minute, leaves_per_minute and back_after");
  refused(fault + "churn = { back_after = '2s' }\n",
          "churn needs crashes_per_minute or leaves_per_minute above 0");
  refused(fault + "churn = { crashes_per_minute = -1 }\n",
          "fault.churn.crashes_per_minute: '-1' is not a number");
  refused(fault + "churn = { crash = 1 }\n", "unknown key 'fault.churn.crash'");
  refused(fault + "poison = 'nan'\nchurn = { crashes_per_minute = 1 }\n", "several kinds");
  refused("peers = 1\n[[fault]]\npeer = 0\nchurn = { crashes_per_minute = 1 }\n",
          "churn needs at least 2 peers");
  refused("peers = 0\n", "peers: '0'");
  refused("[[peer]]\nworkers = 2\n", "this [[peer]] has no 'number'");
  refused("[[peer]]\nnumber = 1\n", "this [[peer]] sets nothing");
  refused("[[peer]]\nnumber = 4\nworkers = 2\n", "[[peer]] 1: peer 4 does not exist; 4 peers");
  refused("[[peer]]\nnumber = 1\nbatch_size = 2\n", "line 3: peer.batch_size: all peers of a run share it");
  refused("[[peer]]\nnumber = 1\nworker = 2\n", "unknown key 'peer.worker'; did you mean peer.workers?");
  refused("[[peer]]\nnumber = 1\nworkers = 0\n", "line 3: peer.workers: '0'");
  refused("[[peer]]\nnumber = 1\ndevice = 'cpu'\ndevices = 'cuda:0,cuda:1'\n",
          "device or on devices, not on both");
  refused("[peer]\nnumber = 1\n", "expected [[peer]] tables");
}

TEST_CASE("check rejects faults of peers that do not exist and times in the wrong order") {
  Experiment e;
  e.faults = {{.peer = 4, .factor = 2}};
  REQUIRE(contains(check(e).error().message,
                   "fault 1 (slow of peer 4): that peer does not exist; 4 peers are numbered from 0 to 3"));
  e.faults = {{.peer = 3, .factor = 2}, {.peer = 0, .factor = 0.5}};
  REQUIRE(contains(check(e).error().message, "fault 2"));
  e.faults = {{.peer = Fault::kAll, .kind = Fault::Kind::crash}};
  REQUIRE(contains(check(e).error().message,
                   "fault 1 (crash of peer all): only slow, pause, link and churn can concern all"));
  e.faults = {{.factor = 2, .from = std::chrono::seconds(3), .to = std::chrono::seconds(3)}};
  REQUIRE(contains(check(e).error().message, "the second time must be later than the first"));
  e.faults = {{.kind = Fault::Kind::crash, .to = std::chrono::seconds(3)}};
  REQUIRE(contains(check(e).error().message, "have 'to'"));
  e.faults = {{.factor = 2, .from = Duration{-1}}};
  REQUIRE(contains(check(e).error().message, "its times"));
  e.faults = {{.kind = Fault::Kind::poison, .poison = "arsenic"}};
  REQUIRE(
      contains(check(e).error().message, "fault 1 (poison of peer 0): the poison 'arsenic' does not exist"));
  e.faults = {{.kind = Fault::Kind::pause, .poison = "nan"}};
  REQUIRE(contains(check(e).error().message, "only poison"));
  for (const LinkChange& link : {LinkChange{}, LinkChange{.drop = 1}, LinkChange{.bandwidth = 0},
                                 LinkChange{.latency = Duration{-1}}}) {
    e.faults = {{.kind = Fault::Kind::link, .link = link}};
    REQUIRE(contains(check(e).error().message, "fault 1 (link of peer 0): "));
  }
  e.faults = {{.kind = Fault::Kind::pause, .link = {.drop = 0.1}}};
  REQUIRE(contains(check(e).error().message, "only link"));
  e.faults.clear();
  e.training.batch_size = 0;
  REQUIRE(contains(check(e).error().message, "training.batch_size: '0'"));
  e.training.batch_size = 64;
  e.optimizer.learning_rate = std::numeric_limits<double>::quiet_NaN();
  REQUIRE(contains(check(e).error().message, "training.learning_rate"));
}

}  // namespace starling::training
