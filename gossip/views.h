// Anti-entropy: now and then a peer sends the digest of its view to a random member. The receiver answers
// with its entries of the buckets that differ, and gets the sender's entries of those buckets back. Rumors
// are fast; this makes all views equal in the end. The interval doubles while views agree.
#pragma once

#include <vector>

#include "gossip/actions.h"
#include "gossip/circle.h"
#include "gossip/local_view.h"

namespace starling::gossip {

class Views {
 public:
  static constexpr std::size_t kWelcomeMax = 64;  // live members in an introduction
  static constexpr std::size_t kDeadMax = 32;     // dead ones, the latest

  explicit Views(LocalView& view) : view_(view), delay_(view.options.sync_min) {}

  void start(Instant now);
  // Sends a Digest to one of the circle when that is due.
  void tick(Instant now, Circle& circle, std::vector<Action>& out);
  // Compares views with the peer at this address now.
  void sync_with(const Address& address, std::vector<Action>& out) const;
  // The answer to a Digest.
  wire::View answer(const wire::Digest& digest) const;
  // The answer to a View that wants one, to be taken before its members are merged: without those members
  // that the sender has just sent.
  wire::View answer(const wire::View& theirs) const;
  // What a View says about the pace of comparing.
  void adapt(Instant now, const wire::View& theirs);
  // Members for a joiner. Recently dead ones are included, so that their samples are not counted twice if
  // they come back.
  std::vector<wire::Member> introduction(PeerId joiner);
  Instant next_deadline() const { return next_; }

 private:
  std::vector<wire::Member> members_in(std::uint64_t buckets) const;

  LocalView& view_;
  Duration delay_;
  Instant next_ = kNever;
};

}  // namespace starling::gossip
