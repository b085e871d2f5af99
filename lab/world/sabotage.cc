#include "lab/world/sabotage.h"

#include <array>
#include <deque>
#include <utility>
#include <variant>

namespace starling::lab {
namespace {

class LostMass : public Sabotage {
 public:
  explicit LostMass(std::uint64_t seed) : random_(seed) {}
  bool swallows_mix() override { return random_.chance(0.001); }

 private:
  Random random_;
};

// The members that a message tells of, if it is one of those that do.
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

class ResurrectedPeer : public Sabotage {
 public:
  explicit ResurrectedPeer(std::uint64_t seed) : random_(seed) {}
  void before(std::uint32_t, PeerId, gossip::Event& event) override {
    auto* members = members_of(event);
    if (members == nullptr) return;
    for (wire::Member& member : *members) {
      if (member.liveness < wire::Liveness::failed || !random_.chance(0.1)) continue;
      member.liveness = wire::Liveness::alive;
      ++member.incarnation;
    }
  }

 private:
  Random random_;
};

class UnboundedQueue : public Sabotage {
 public:
  void before(std::uint32_t, PeerId, gossip::Event& event) override {
    if (const auto* received = std::get_if<gossip::Received>(&event)) queue_.push_back(received->message);
  }
  std::size_t held() const override { return queue_.size(); }

 private:
  std::deque<wire::Message> queue_;
};

class IdleDeadline : public Sabotage {
 public:
  explicit IdleDeadline(std::uint64_t seed) : random_(seed) {}
  Instant deadline(Instant now, Instant wanted) override { return random_.chance(1e-4) ? now : wanted; }

 private:
  Random random_;
};

class ForgottenRefutation : public Sabotage {
 public:
  void before(std::uint32_t, PeerId self, gossip::Event& event) override {
    auto* members = members_of(event);
    if (members == nullptr) return;
    std::erase_if(*members, [self](const wire::Member& member) {
      return member.id == self && member.liveness != wire::Liveness::alive;
    });
  }
};

}  // namespace

const char* name(PlantedBug bug) {
  static constexpr std::array<const char*, 5> kNames = {"lost mass", "resurrected peer", "unbounded queue",
                                                        "idle deadline", "forgotten refutation"};
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
  }
  return nullptr;
}

}  // namespace starling::lab
