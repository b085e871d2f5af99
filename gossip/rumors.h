// News about members, and how often it is still to be sent. News travels in messages that are sent anyway
// (SWIM, section 4.1: piggybacking); each change is sent a number of times logarithmic in the size of the
// swarm. What rumors miss is found by comparing digests (Views).
//
// There are two queues. Changes of members are sent round-robin, the newest first. Growth of samples, which
// is far more frequent, travels as short Progress entries, the latest first.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "gossip/local_view.h"

namespace starling::gossip {

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
  std::uint8_t tellings() const;
  std::vector<wire::Member> warning(Instant now, PeerId receiver);
  void take_members(PeerId receiver, std::vector<wire::Member>& news);
  std::vector<wire::Progress> take_progress();

  LocalView& view_;
  std::deque<PeerId> members_;   // the least told first
  std::deque<PeerId> progress_;  // the latest first
  std::uint8_t self_tellings_ = 0;
};

}  // namespace starling::gossip
