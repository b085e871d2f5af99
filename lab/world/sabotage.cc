#include "lab/world/sabotage.h"

#include <array>
#include <deque>
#include <map>
#include <variant>
#include <vector>

namespace starling::lab {
namespace {

// The members in the news of a message; null if it has none.
std::vector<wire::Member>* members_of(gossip::Event& event) {
  auto* received = std::get_if<gossip::Received>(&event);
  if (received == nullptr) return nullptr;
  return std::visit(
      [](auto& message) -> std::vector<wire::Member>* {
        if constexpr (requires { message.members; }) {
          return &message.members;
        } else {
          return nullptr;
        }
      },
      received->message);
}

struct LostMass : Sabotage {
  explicit LostMass(std::uint64_t seed) : random(seed) {}
  bool swallows_mix() override { return random.chance(0.001); }
  Random random;
};

struct ResurrectedPeer : Sabotage {
  explicit ResurrectedPeer(std::uint64_t seed) : random(seed) {}
  void before_start(gossip::MembershipOptions& options) override { options.guards.signatures = false; }
  void before(std::uint32_t, PeerId, gossip::Event& event) override {
    auto* members = members_of(event);
    if (members == nullptr) return;
    for (wire::Member& member : *members) {
      if (member.liveness < wire::Liveness::failed || !random.chance(0.1)) continue;
      member.liveness = wire::Liveness::alive;
      ++member.incarnation;
    }
  }
  Random random;
};

struct UnboundedQueue : Sabotage {
  void before(std::uint32_t, PeerId, gossip::Event& event) override {
    if (const auto* received = std::get_if<gossip::Received>(&event)) queue.push_back(received->message);
  }
  std::size_t held() const override { return queue.size(); }
  std::deque<wire::Message> queue;
};

struct IdleDeadline : Sabotage {
  explicit IdleDeadline(std::uint64_t seed) : random(seed) {}
  Instant deadline(Instant now, Instant wanted) override { return random.chance(1e-4) ? now : wanted; }
  Random random;
};

struct ForgottenRefutation : Sabotage {
  void before(std::uint32_t, PeerId self, gossip::Event& event) override {
    if (auto* members = members_of(event))
      std::erase_if(*members, [self](const wire::Member& member) {
        return member.id == self && member.liveness != wire::Liveness::alive;
      });
  }
};

struct CallsNotPassedOn : Sabotage {
  void before(std::uint32_t, PeerId self, gossip::Event& event) override {
    const auto* const received = std::get_if<gossip::Received>(&event);
    const auto* const call = received != nullptr ? std::get_if<wire::Call>(&received->message) : nullptr;
    if (call != nullptr && call->target != self) event = gossip::Tick{};
  }
};

// What others say about how a member is reached stays as it was first.
struct OldRecords : Sabotage {
  enum class Keeps : std::uint8_t { address, homes };
  explicit OldRecords(Keeps what) : keeps(what) {}
  void before_start(gossip::MembershipOptions& options) override { options.guards.signatures = false; }
  void before(std::uint32_t, PeerId self, gossip::Event& event) override {
    auto* const members = members_of(event);
    if (members == nullptr) return;
    for (wire::Member& member : *members) {
      if (member.id == self) continue;
      if (keeps == Keeps::address && member.address)
        member.address = addresses.try_emplace(member.id, member.address).first->second;
      if (keeps == Keeps::homes && !member.homes.empty())
        member.homes = homes.try_emplace(member.id, member.homes).first->second;
    }
  }
  Keeps keeps;
  std::map<PeerId, Address> addresses;
  std::map<PeerId, std::vector<PeerId>> homes;
};

struct AnswersPileUp : Sabotage {
  bool keeps_answers() override { return true; }
};

struct WrongAnswerEnds : Sabotage {
  bool ends_latest_answer() override { return true; }
};

struct BeginsAlone : Sabotage {
  void before_start(gossip::MembershipOptions& options) override { options.awaits_expected = false; }
};

struct MissingGuard : Sabotage {
  explicit MissingGuard(bool gossip::Guards::*missing) : guard(missing) {}
  void before_start(gossip::MembershipOptions& options) override { options.guards.*guard = false; }
  bool gossip::Guards::*guard;
};

}  // namespace

const char* name(PlantedBug bug) {
  static constexpr std::array<const char*, 16> kNames = {"lost mass",
                                                         "resurrected peer",
                                                         "unbounded queue",
                                                         "idle deadline",
                                                         "forgotten refutation",
                                                         "no signatures",
                                                         "no bound of samples",
                                                         "no introductions",
                                                         "no own probe",
                                                         "calls are not passed on",
                                                         "homes are never replaced",
                                                         "a moved member keeps its old record",
                                                         "answers pile up",
                                                         "the wrong answer ends",
                                                         "a wait has no limit",
                                                         "a peer begins alone"};
  return kNames.at(static_cast<std::size_t>(bug));
}

std::unique_ptr<Sabotage> plant(PlantedBug bug, std::uint64_t seed) {
  switch (bug) {
    case PlantedBug::lost_mass:
      return std::make_unique<LostMass>(seed);
    case PlantedBug::resurrected_peer:
      return std::make_unique<ResurrectedPeer>(seed);
    case PlantedBug::unbounded_queue:
      return std::make_unique<UnboundedQueue>();
    case PlantedBug::idle_deadline:
      return std::make_unique<IdleDeadline>(seed);
    case PlantedBug::forgotten_refutation:
      return std::make_unique<ForgottenRefutation>();
    case PlantedBug::no_signatures:
      return std::make_unique<MissingGuard>(&gossip::Guards::signatures);
    case PlantedBug::no_bound_of_samples:
      return std::make_unique<MissingGuard>(&gossip::Guards::samples);
    case PlantedBug::no_introductions:
      return std::make_unique<MissingGuard>(&gossip::Guards::introductions);
    case PlantedBug::no_own_probe:
      return std::make_unique<MissingGuard>(&gossip::Guards::own_probe);
    case PlantedBug::calls_not_passed_on:
      return std::make_unique<CallsNotPassedOn>();
    case PlantedBug::homes_never_replaced:
      return std::make_unique<OldRecords>(OldRecords::Keeps::homes);
    case PlantedBug::moved_keeps_old_record:
      return std::make_unique<OldRecords>(OldRecords::Keeps::address);
    case PlantedBug::answers_pile_up:
      return std::make_unique<AnswersPileUp>();
    case PlantedBug::wrong_answer_ends:
      return std::make_unique<WrongAnswerEnds>();
    case PlantedBug::endless_waits:
      return std::make_unique<MissingGuard>(&gossip::Guards::pauses);
    case PlantedBug::begins_alone:
      return std::make_unique<BeginsAlone>();
  }
  return nullptr;
}

}  // namespace starling::lab
