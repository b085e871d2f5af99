// How a peer gets into a run: it begins one, or sends Joins to known addresses until a member welcomes it
// with the manifest. If nobody does in time (PeerOptions::unwelcomed), it begins the run itself, unless it
// was locked out: then the swarm still runs, and the peer fails; or it fails. It also fails if a peer at such
// an address was lost, and nobody lets this one in within recovery_limit. A member answers a Join of a
// program that does not know a setting of the run with a Refusal, and does not make it a member.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/run_state.h"

namespace starling::gossip {

// What a program does not know of a setting of the run: "gossip.new", or "gossip.rule = new"; empty: it knows
// both.
std::string unknown_to(const wire::Program& program, const wire::ManifestEntry& setting);

class Joining {
 public:
  explicit Joining(RunState& run)
      : run_(run), hopeless_(run.options.join.size()), delay_(run.options.unwelcomed.retry.min) {}

  void start(Actions& out);
  void tick(Actions& out) {
    if (begin_at_ <= run_.now) begin_run(out);
    if (!run_.over && std::min(fails_at_, gone_until_) <= run_.now) give_up(out);
    if (!run_.over && next_join_ <= run_.now) send_joins(out);
  }
  // No further attempts.
  void stop() { next_join_ = begin_at_ = fails_at_ = gone_until_ = kNever; }
  Instant next_deadline() const { return std::min({next_join_, begin_at_, fails_at_, gone_until_}); }

  // It began the run itself: there is nothing to copy.
  bool is_beginner() const { return beginner_; }

  void unreachable(const Unreachable& unreachable, Actions& out);
  void welcomed(const Received& from, const wire::Welcome& welcome, Actions& out);
  void refused(const Received& from, const wire::Refusal& refusal, Actions& out);
  // Answers another peer's Join. Returns whether it was welcomed.
  bool answer(const Received& from, const wire::Join& join, Actions& out);

 private:
  void begin_run(Actions& out);
  void give_up(Actions& out);
  void waits(PeerId peer, std::string why, Actions& out);
  bool is_outdated(const Received& from, const wire::Join& join, Actions& out);
  void send_joins(Actions& out);
  Address asked_at(const Address& stated) const;
  void take_earlier_samples(std::span<const wire::Member> members);

  RunState& run_;
  bool beginner_ = false;
  std::vector<bool> hopeless_;  // for each address: no peer of this swarm listens there
  Duration delay_;
  Instant next_join_ = kNever;
  Instant begin_at_ = kNever;
  Instant fails_at_ = kNever;               // if it is not welcomed
  Instant gone_until_ = kNever;             // when it fails if the peer that was there stays away
  std::string obstacle_;                    // why the latest attempt failed
  std::string locked_out_;                  // the latest error about a key or a version
  bool outdated_ = false;                   // that was about a version
  PeerId told_outdated_;                    // the last joiner that was refused for its version
  std::optional<wire::Manifest> manifest_;  // once begun or welcomed
};

}  // namespace starling::gossip
