// How news spreads: Rumors attaches it to messages that are sent anyway, and Views compares digests to find
// what rumors missed.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

#include "gossip/actions.h"
#include "gossip/members/members.h"

namespace starling::gossip {

// News about members, and how often it is still to be sent. News travels in messages that are sent anyway
// (SWIM, section 4.1: piggybacking); each change is sent a number of times logarithmic in the size of the
// swarm. What rumors miss is found by comparing digests (Views).
//
// There are two queues. Changes of members are sent round-robin, the newest first. Growth of samples, which
// is far more frequent, travels as short Progress entries, the latest first.
class Rumors {
 public:
  static constexpr std::size_t kMembersMax = 12;   // in one message
  static constexpr std::size_t kProgressMax = 20;  // in one message

  explicit Rumors(LocalView& view) : view_(view) {}

  // This member, or this peer itself, has changed.
  void start(Record& record);
  void start_self() { self_tellings_ = tellings(); }
  // This member's samples have grown.
  void progressed(Record& record);

  // News for this receiver, counted as sent. It begins with what others hold against the receiver, if
  // anything, so that it can refute.
  std::vector<wire::Member> take(Instant now, PeerId receiver);
  // The same with this peer's own entry at the end, whether or not it has changed.
  std::vector<wire::Member> take_with_self(Instant now, PeerId receiver);
  // A Gossip of news and progress.
  enum class Reply : std::uint8_t { none, wanted };
  wire::Gossip take_gossip(Instant now, PeerId receiver, Reply reply);
  // Adds the known vitals of all members with progress in it.
  void add_vitals(wire::Gossip& gossip) const;

  std::size_t members_queued() const { return members_.size(); }
  std::size_t progress_queued() const { return progress_.size(); }
  // Drops the newest members from the queue until it has this size.
  void shrink_to(std::size_t size);

 private:
  std::uint8_t tellings() const {
    return static_cast<std::uint8_t>(2 * std::bit_width(view_.members.live() + 1));
  }
  std::vector<wire::Member> warning(Instant now, PeerId receiver);
  void take_members(PeerId receiver, std::vector<wire::Member>& news);
  std::vector<wire::Progress> take_progress();

  LocalView& view_;
  std::deque<PeerId> members_;   // the least told first
  std::deque<PeerId> progress_;  // the latest first
  std::uint8_t self_tellings_ = 0;
};

// Anti-entropy: now and then a peer sends the digest of its view to a random member. The receiver answers
// with its entries of the buckets that differ, and gets the sender's entries of those buckets back. Rumors
// are fast; this makes all views equal in the end. The interval doubles while views agree.
class Views {
 public:
  static constexpr std::size_t kWelcomeMax = 64;  // live members in an introduction
  static constexpr std::size_t kDeadMax = 32;     // dead ones, the latest

  explicit Views(LocalView& view) : view_(view), delay_(view.options.sync.min) {}

  void start(Instant now) { next_ = view_.jittered(now, view_.options.sync.min); }
  // Sends a Digest to one of the circle when that is due.
  void tick(Instant now, Actions& out);
  // Compares views with this peer now.
  void sync_with(const wire::Member& to, Actions& out) const {
    if (view_.can_tell(to)) sync_with(view_.control_endpoint(to), out);
  }
  void sync_with(const Endpoint& to, Actions& out) const {
    out.push_back(Send{to, wire::Digest{view_.digest(), view_.topology}});
  }
  // The answer to a Digest.
  wire::View answer(const wire::Digest& digest) const;
  // The answer to a View that wants one, to be taken before its members are merged: without those members
  // that the sender has just sent.
  wire::View answer(const wire::View& theirs) const;
  // What a View says about the pace of comparing.
  void adapt(Instant now, const wire::View& theirs);
  // Members for a joiner. Recently dead ones are included, so that their samples are not counted twice if
  // they come back; and the joiner itself, if it is known.
  std::vector<wire::Member> introduction(PeerId joiner);
  Instant next_deadline() const { return next_; }

 private:
  std::vector<wire::Member> members_in(std::uint64_t buckets) const;

  LocalView& view_;
  Duration delay_;
  Instant next_ = kNever;
};

}  // namespace starling::gossip
