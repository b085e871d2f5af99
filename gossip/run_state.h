// What a Peer is made with (identity, how it finds the swarm, time limits), and what its parts share:
// options, time, membership, the run's rules, and whether the peer is leaving or without a replica. Parts
// hold a reference to it; none of them knows the Peer or another part by it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/events.h"
#include "gossip/members/membership.h"

namespace starling::gossip {

// What a peer that resumes from a checkpoint did before. Its steps continue from there. Its samples start at
// the greater of the number that the swarm has counted for its id and the checkpoint's; a swarm without this
// id counts from 0. A peer that begins the run again adds the whole swarm's.
struct EarlierLives {
  std::uint64_t steps = 0, samples = 0;  // its own
  std::uint64_t swarm_samples = 0;       // everyone's, its own included
  Duration elapsed{0};                   // since the run began
  wire::Progress last{};  // of the id that wrote the checkpoint, with all its lives; id 0: unknown
};

struct PeerOptions {
  const Identity* identity = nullptr;  // REQUIRES: not null, outlives the peer
  // The first incarnation of this instance: greater than any of an earlier one with this identity, if
  // possible. Otherwise the peer finds out and raises it.
  std::uint32_t incarnation = 0;
  std::string name;
  std::string http{};  // "HOST:PORT" of its live page, for the pages of others; empty: none
  // Where it listens, as others should dial it. Empty: it does not listen, or membership.reach.finds_address.
  Address address;
  std::uint64_t seed = 1;
  std::vector<Address> join;  // tried until one welcomes the peer; empty: it begins the run of `manifest`
  // What a joiner that nobody has welcomed does: it asks again, and after these times it begins the run of
  // `manifest` itself, which restores a swarm in which all peers stopped, or fails. If an address rejected
  // the swarm key or the version, the peer fails instead: the swarm still runs there, and must not be started
  // a second time.
  struct Unwelcomed {
    std::optional<Duration> begins{}, fails{};  // unset: it tries without end
    Backoff retry{std::chrono::milliseconds(250), std::chrono::seconds(30)};
  } unwelcomed;
  wire::Manifest manifest;        // for a peer that begins the run
  wire::Program program{};        // what it knows; others' Joins are compared with the run's settings
  std::vector<Address> contacts;  // where other members may listen: pinged forever
  EarlierLives earlier{};
  MembershipOptions membership;

  Backoff state_retry{std::chrono::milliseconds(200), std::chrono::seconds(5)};  // before the next donor
  Duration state_stall = std::chrono::seconds(3);  // without progress: the donor is replaced
  // Without progress: an exchange with a new partner is aborted. Known partners have learned limits
  // (Patience).
  Duration exchange_timeout = std::chrono::seconds(10);
  Duration round_limit = std::chrono::minutes(2);              // in lock-step, for a live neighbor
  Duration exchange_doubt = std::chrono::seconds(1);           // then the partner is probed
  Duration exchange_hold_off = std::chrono::milliseconds(20);  // after a failed exchange
  Duration leave_limit = std::chrono::milliseconds(1500);      // from LeaveRequested to the goodbye
  std::uint32_t answers_max = 16;                              // offers answered at once; others get `busy`
  Duration recovery_limit = std::chrono::seconds(30);  // without a replica and a donor: the peer fails
  // A replica lost within this number of steps after a copy makes the peer wait before it copies again, twice
  // as long each time (state_retry). After recoveries_max such copies in a row the peer fails.
  std::uint64_t recovery_steps = 1000;
  std::uint32_t recoveries_max = 5;
  // A finished peer answers unfinished ones for at most this long.
  Duration linger = std::chrono::seconds(10);

  // Its entry in the membership.
  wire::Member self() const {
    wire::Member self;
    self.id = identity->id();
    self.key = identity->key();
    self.incarnation = incarnation;
    self.name = name;
    self.address = address;
    if (address) {
      self.also = membership.reach.also;
      self.relays = membership.reach.relays;
    }
    self.http = http;
    return self;
  }
};

// Independent random streams of a peer's seed.
enum class RandomStream : std::uint64_t { membership = 1, partners, own, pace };

struct RunState {
  explicit RunState(PeerOptions peer_options)
      : options(std::move(peer_options)),
        random(stream(RandomStream::own)),
        membership(*options.identity, options.self(), options.membership, stream(RandomStream::membership)) {
    membership.set_progress({}, options.earlier.steps, 0);
  }

  PeerOptions options;
  Random random;  // RandomStream::own, for joining and copying
  Membership membership;
  Instant now;
  Instant run_start;
  std::optional<RunRules> rules;  // once prepared
  bool diverged = false;          // its replica is lost and not replaced yet
  bool leaving = false;
  bool over = false;
  std::string doubt;                 // why the end of the training may be false; empty: it is not
  std::uint64_t samples_before = 0;  // that the swarm counts for earlier lives of this id

  PeerId id() const { return membership.self().id; }
  wire::Phase phase() const { return membership.self().phase; }
  std::uint64_t steps() const { return membership.self().steps; }
  const RuleTraits& rule() const { return traits(rules ? rules->rule : Rule::none); }
  Random stream(RandomStream purpose) const {
    return Random(options.seed).split(static_cast<std::uint64_t>(purpose));
  }

  // The last action.
  void finish(Finish::How how, std::string why, Actions& out, bool other_version = false) {
    over = true;
    out.push_back(Finish{how, std::move(why), other_version});
  }
  // The same after a goodbye to others.
  void say_goodbye_and_finish(Finish::How how, std::string why, Actions& out) {
    membership.say_goodbye(out);
    finish(how, std::move(why), out);
  }
};

}  // namespace starling::gossip
