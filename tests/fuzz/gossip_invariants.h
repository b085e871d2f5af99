// What must hold after each step of a fuzzed peer, whatever others send: a driver can carry out every action,
// and the view has no false fact about an honest member.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gossip/peer.h"
#include "tests/fuzz/gossip_members.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace starling::fuzz {

// What the driver of a peer knows: what is under way, and what was asked for.
struct Duties {
  bool prepare = false, fetch = false, trains = false, over = false;
  bool prepared = false, started = false, stopped = false;
  std::vector<std::uint64_t> exchanges{};                    // that the peer began
  std::multiset<std::pair<PeerId, std::uint64_t>> offers{};  // that it has not answered
  std::vector<std::pair<PeerId, std::uint64_t>> answers{};   // that it accepted
  std::vector<std::pair<gossip::Send, wire::Ping>> pings{};  // the latest that it sent
  std::uint64_t round = 0, last_exchange = 0;
};

// Checks the actions of one step in order, and books them.
class ActionChecks {
 public:
  explicit ActionChecks(Duties& duties) : duties_(duties) {}

  void operator()(const gossip::Send& send) {
    STARLING_CHECK(send.to.id != PeerId{kSelf});
    // The receiver's decoder accepts every message.
    auto frame = wire::encode_frame(send.message);
    STARLING_CHECK(frame.ok());
    const auto decoded = wire::decode_message(MutableBytes(*frame).subspan(wire::kFrameHeaderBytes));
    STARLING_CHECK(decoded.ok() && *decoded == send.message);
    if (const auto* ping = std::get_if<wire::Ping>(&send.message)) {
      if (duties_.pings.size() == kPingsMax) duties_.pings.erase(duties_.pings.begin());
      duties_.pings.emplace_back(send, *ping);
    }
  }
  void operator()(const gossip::Prepare&) {
    STARLING_CHECK(!duties_.prepare && !duties_.prepared);
    duties_.prepare = true;
  }
  void operator()(const gossip::FetchState&) {
    STARLING_CHECK(!duties_.fetch && duties_.prepared);
    duties_.fetch = true;
  }
  void operator()(const gossip::AbortFetch&) { duties_.fetch = false; }
  void operator()(const gossip::StartTraining&) {
    STARLING_CHECK(duties_.prepared && !duties_.started);
    duties_.started = duties_.trains = true;
  }
  void operator()(const gossip::StopTraining&) {
    STARLING_CHECK(!duties_.stopped);
    duties_.stopped = true;
    duties_.trains = false;
  }
  void operator()(const gossip::BeginRound& begin) {
    STARLING_CHECK(begin.round > duties_.round);
    duties_.round = begin.round;
  }
  void operator()(const gossip::BeginExchange& begin) {
    STARLING_CHECK(begin.exchange > duties_.last_exchange);
    duties_.last_exchange = begin.exchange;
    duties_.exchanges.push_back(begin.exchange);
  }
  void operator()(const gossip::AbortExchange& abort) {
    STARLING_CHECK(std::erase(duties_.exchanges, abort.exchange) == 1);
  }
  void operator()(const gossip::AnswerOffer& answer) {
    const auto offer = duties_.offers.find({answer.from, answer.exchange});
    STARLING_CHECK(offer != duties_.offers.end());
    duties_.offers.erase(offer);
    // push-sum: half of all live peers.
    STARLING_CHECK(answer.terms.weight >= 0 &&
                   answer.terms.weight <= static_cast<float>(gossip::MembershipOptions{}.members_max));
    STARLING_CHECK(answer.terms.own_share > 0 && answer.terms.own_share <= 1);
    if (answer.accept) duties_.answers.emplace_back(answer.from, answer.exchange);
  }
  void operator()(const gossip::Finish&) { duties_.over = true; }
  template <class Other>
  void operator()(const Other&) {}

 private:
  static constexpr std::size_t kPingsMax = 16;
  Duties& duties_;
};

// No more than this many actions follow from one event, in a swarm of which this many members are known.
constexpr std::size_t most_actions(std::size_t known) { return 256 + 8 * known; }

class ViewChecks {
 public:
  ViewChecks(const Company& members, std::size_t members_max)
      : members_(members), members_max_(members_max) {}

  // This message makes members known: its sender, one whose signed answer it brings, and those that a Welcome
  // names. Hearsay does not.
  void may_know(PeerId from, const wire::Message& message) {
    known_.insert(from.value);
    if (const auto* ack = std::get_if<wire::Ack>(&message);
        ack != nullptr && !is_honest(ack->on_behalf.value))
      known_.insert(ack->on_behalf.value);
    if (const auto* welcome = std::get_if<wire::Welcome>(&message))
      for (const wire::Member& m : welcome->members) known_.insert(m.id.value);
  }

  void check(const gossip::Peer& peer, Instant now) {
    const gossip::Peer::View view = peer.view();
    STARLING_CHECK(view.over ? peer.next_deadline() == kNever : peer.next_deadline() > now);
    check_self(view.membership.self());
    const auto& others = view.membership.others();
    STARLING_CHECK(others.size() <= members_max_);
    STARLING_CHECK(view.membership.queued() <= 2 * others.size() + 1500);
    STARLING_CHECK(view.swarm_samples >= view.membership.self().samples);
    std::size_t live = 0;
    PeerId before{};
    for (const gossip::Record& record : others) {
      STARLING_CHECK(record.member.id > before && record.member.id != PeerId{kSelf});
      before = record.member.id;
      live += record.is_live() ? 1 : 0;
      check_record(record);
    }
    STARLING_CHECK(live == view.membership.view().members.live());
    check_first(view.membership.find(PeerId{kFirstHonest}));
  }

 private:
  // It keeps its id, key and address, raises its incarnation one by one, and its phase only advances.
  void check_self(const wire::Member& self) {
    STARLING_CHECK(self.id == PeerId{kSelf} && self.address == home_of(kSelf));
    STARLING_CHECK(load<std::uint64_t>(self.key.bytes.data()) == kSelf);
    STARLING_CHECK(self.incarnation >= incarnation_ && self.incarnation - incarnation_ <= 1);
    STARLING_CHECK(self.phase >= phase_);
    incarnation_ = self.incarnation;
    phase_ = self.phase;
  }
  // It answers every ping at once, so it does not fail, unless another one is heard at its address. (A
  // Welcome may name it as failed.)
  void check_first(const gossip::Record* record) {
    const bool has_failed = record != nullptr && record->member.liveness == wire::Liveness::failed;
    STARLING_CHECK(!has_failed || !first_lived_ || record->superseded);
    first_lived_ = record != nullptr && record->is_live();
  }
  void check_record(const gossip::Record& record) const {
    const wire::Member& m = record.member;
    STARLING_CHECK(known_.contains(m.id.value));
    if (!is_honest(m.id.value)) return;
    const Honest& truth = members_.honest(m.id.value);
    STARLING_CHECK(m.incarnation <= truth.self.incarnation && m.phase <= truth.self.phase);
    STARLING_CHECK(m.address == truth.self.address && m.name == truth.self.name);
    STARLING_CHECK(m.liveness != wire::Liveness::left || truth.left_in.contains(m.incarnation));
  }

  const Company& members_;
  std::size_t members_max_;
  std::unordered_set<std::uint64_t> known_;
  std::uint32_t incarnation_ = 0;
  bool first_lived_ = false;
  wire::Phase phase_ = wire::Phase::joining;
};

}  // namespace starling::fuzz
