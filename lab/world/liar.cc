#include "lab/world/liar.h"

#include <array>
#include <string>
#include <utility>

#include "lab/world/network/virtual_identity.h"

namespace starling::lab {
namespace {

using gossip::Send;
using wire::Liveness;
using wire::Member;

constexpr std::uint64_t kImpossible = 1'000'000'000'000'000;  // samples
constexpr std::uint32_t kLastIncarnation = UINT32_MAX;

class Liar {
 public:
  Liar(const gossip::Membership& membership, const Identity& identity, Random& random)
      : membership_(membership), identity_(identity), random_(random) {}

  std::vector<Send> take() { return std::move(out_); }

  // Every member is said to be in this state.
  void accuse(Liveness liveness) {
    for (Member member : others()) {
      member.liveness = liveness;
      if (liveness == Liveness::left) member.incarnation = kLastIncarnation;
      if (liveness == Liveness::suspect) member.accuser = others()[random_.below(others().size())].id;
      told_.push_back(std::move(member));
    }
    gossip();
  }
  // Every member is said to listen elsewhere: at the address of another one, or nowhere.
  void move() {
    for (Member member : others()) {
      ++member.incarnation;
      member.address = random_.chance(0.5) ? others()[random_.below(others().size())].address : nowhere();
      told_.push_back(std::move(member));
    }
    gossip();
  }
  void finish() {
    for (Member member : others()) {
      member.phase = wire::Phase::finished;
      told_.push_back(std::move(member));
    }
    gossip();
  }
  void advance() {
    for (const Member& member : others()) progress_.push_back({member.id, kImpossible});
    gossip();
  }
  void boast() {
    progress_.push_back({identity_.id(), kImpossible});
    Member self = membership_.self();
    self.samples = kImpossible;
    told_.push_back(std::move(self));
    gossip();
  }
  // Members that do not exist, each signed with a key of its own. They listen nowhere, or where others do.
  void invent() {
    for (std::uint64_t k = 1 + random_.below(100); k > 0; --k) {
      const VirtualIdentity invented(PeerId{random_.bits() | 1});
      Member member;
      member.id = invented.id();
      member.name = "x" + std::to_string(member.id.value);
      member.address = random_.chance(0.5) ? nowhere() : others()[random_.below(others().size())].address;
      member.phase = wire::Phase::training;
      member.samples = kImpossible;
      member.key = invented.key();
      member.signature = invented.sign(gossip::statement_of(member));
      told_.push_back(std::move(member));
    }
    gossip();
  }
  // Topologies in others' names, and one of its own far in the future.
  void rewire() {
    const PeerId author = random_.chance(0.5) ? identity_.id() : others()[random_.below(others().size())].id;
    const std::uint64_t number = author == identity_.id() ? wire::kRevisionMax : 1 + random_.below(5);
    wire::Rewire rewire{{number, author}, "ring", identity_.key(), {}};
    rewire.signature = identity_.sign(gossip::statement_of(rewire));
    for (const Member& to : others()) out_.push_back({gossip::endpoint_of(to), rewire});
  }
  // Answers in others' names to requests with the numbers that peers use next.
  void answer() {
    for (const Member& to : others()) {
      for (std::uint64_t k = 0; k < 8; ++k) {
        const PeerId target = others()[random_.below(others().size())].id;
        const auto signature = identity_.sign(gossip::answer_statement(identity_.key(), to.id, ++sequence_));
        out_.push_back({gossip::endpoint_of(to), wire::Ack{sequence_, {}, target, signature}});
      }
    }
  }
  void claim_addresses() {
    for (const Member& to : others())
      out_.push_back({gossip::endpoint_of(to), wire::Refusal{wire::RefusalReason::address_taken, "yours"}});
  }

  bool is_alone() const { return others_.empty(); }
  void look() {
    for (const gossip::Record& record : membership_.others())
      if (record.is_live()) others_.push_back(record.member);
  }

 private:
  const std::vector<Member>& others() const { return others_; }
  Address nowhere() { return {"nowhere" + std::to_string(random_.below(1000)), 7100}; }
  void gossip() {
    for (const Member& to : others()) {
      const bool wanted = random_.chance(0.1);
      if (random_.chance(0.2))
        out_.push_back({gossip::endpoint_of(to), wire::View{UINT64_MAX, wanted, told_, {}}});
      else
        out_.push_back({gossip::endpoint_of(to), wire::Gossip{told_, wanted, progress_, {}}});
    }
  }

  const gossip::Membership& membership_;
  const Identity& identity_;
  Random& random_;
  std::vector<Member> others_;
  std::vector<Member> told_;
  std::vector<wire::Progress> progress_;
  std::uint64_t sequence_ = 0;
  std::vector<Send> out_;
};

}  // namespace

std::vector<Send> lie(LieKind kind, const gossip::Membership& membership, const Identity& identity,
                      Random& random) {
  using Tell = void (*)(Liar&);
  static constexpr std::array<Tell, kLieKinds - 1> kLies = {
      [](Liar& liar) { liar.accuse(Liveness::left); },
      [](Liar& liar) { liar.accuse(Liveness::failed); },
      [](Liar& liar) { liar.accuse(Liveness::suspect); },
      [](Liar& liar) { liar.move(); },
      [](Liar& liar) { liar.finish(); },
      [](Liar& liar) { liar.advance(); },
      [](Liar& liar) { liar.boast(); },
      [](Liar& liar) { liar.invent(); },
      [](Liar& liar) { liar.rewire(); },
      [](Liar& liar) { liar.answer(); },
      [](Liar& liar) { liar.claim_addresses(); },
  };
  Liar liar(membership, identity, random);
  liar.look();
  if (liar.is_alone()) return {};
  kLies.at(static_cast<std::size_t>(kind) - 1)(liar);
  return liar.take();
}

}  // namespace starling::lab
