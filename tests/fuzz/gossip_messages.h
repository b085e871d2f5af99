// Control messages of all kinds that a hostile member sends to a fuzzed peer.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "gossip/peer.h"
#include "tests/fuzz/gossip_members.h"

namespace starling::fuzz {

class Messages {
 public:
  Messages(Input& input, Company& members) : input_(input), members_(members) {}

  // From the hostile member of this number. `known`: the peer's records, itself first.
  wire::Message hostile(std::uint64_t number, const std::vector<wire::Member>& known,
                        const gossip::Peer& peer) {
    switch (input_.byte() % 14) {
      case 0:
      case 1:
      case 2:
        return wire::Gossip{members(number, known), input_.flag(), {}, {}};
      case 3:
        return figures(known);
      case 4:
        return wire::Ping{input_.number(), PeerId{input_.below(24)}, members(number, known),
                          PeerId{input_.below(24)}, input_.number()};
      case 5: {
        const wire::Member& target = known[input_.below(known.size())];
        const Address address = input_.flag() ? target.address : Company::address(input_);
        return wire::PingRequest{input_.number(), target.id, address, members(number, known)};
      }
      case 6:
        return answer_for_another(number, known);
      case 7: {
        wire::Digest digest{peer.view().membership.view().digest(), revision(number)};
        for (std::uint64_t n = input_.below(4); n > 0; --n)
          digest.buckets[input_.below(64)] ^= input_.number();
        return digest;
      }
      case 8:
        return wire::View{input_.number() * 0x0101010101010101U, input_.flag(), members(number, known),
                          revision(number)};
      case 9:
        return wire::Join{one_member(number, known)};
      case 10:
        return welcome(members(number, known));
      case 11:
        return wire::Leave{one_member(number, known)};
      case 12:
        return rewire(number);
      default:
        return wire::Refusal{static_cast<wire::RefusalReason>(input_.below(12)), "no"};
    }
  }

  wire::Welcome welcome(std::vector<wire::Member> members) {
    wire::Welcome welcome;
    welcome.manifest.model = "lenet";
    welcome.manifest.arena_floats = 1000;
    welcome.elapsed = std::chrono::seconds(input_.below(65536));
    welcome.members = std::move(members);
    welcome.retired_samples = input_.number();
    return welcome;
  }

 private:
  // The sender itself in the first place, most of the time, so that others listen to it; then lies.
  std::vector<wire::Member> members(std::uint64_t number, const std::vector<wire::Member>& known) {
    std::vector<wire::Member> members;
    if (input_.byte() < 192)
      members.push_back(members_.signed_by_itself(Company::named(number, 1, wire::Phase::training)));
    const std::uint8_t kind = input_.byte();
    for (std::uint64_t n = kind == 255 ? 200 : kind % 8; n > 0; --n)
      members.push_back(members_.described(input_, known));
    return members;
  }
  wire::Member one_member(std::uint64_t number, const std::vector<wire::Member>& known) {
    wire::Member m = members_.described(input_, known);
    if (input_.byte() < 64) return m;
    m.id = PeerId{number};
    return members_.signed_by_itself(m);
  }

  wire::Message figures(const std::vector<wire::Member>& known) {
    wire::Gossip gossip;
    for (std::uint64_t n = input_.below(32); n > 0; --n) {
      const PeerId id = known[input_.below(known.size())].id;
      gossip.progress.push_back({id, input_.number()});
      if (!input_.flag()) continue;
      wire::Vitals& vitals = gossip.vitals.emplace_back();
      vitals.id = id;
      vitals.sequence = static_cast<std::uint32_t>(input_.number());
      vitals.loss = static_cast<double>(input_.byte());
    }
    return gossip;
  }

  // An Ack in the name of a member, which signs it only if it is hostile.
  wire::Message answer_for_another(std::uint64_t number, const std::vector<wire::Member>& known) {
    const wire::Member target = members_.described(input_, known);
    const std::uint64_t sequence = input_.number();
    wire::Ack ack{sequence, {}, target.id, {}};
    const bool is_hostile = target.id.value >= kFirstHostile;
    const Identity& signer = members_.identity_of(is_hostile ? target.id.value : number);
    ack.signature = signer.sign(gossip::answer_statement(signer.key(), PeerId{kSelf}, sequence));
    return ack;
  }

  wire::Revision revision(std::uint64_t number) { return {input_.number() >> 11, PeerId{number}}; }
  wire::Message rewire(std::uint64_t number) {
    static const std::array<std::string, 7> names{
        "complete", "ring", "star", "one-peer-exponential", "nonsense", "torus:rows=3", "hypercube"};
    wire::Rewire rewire{revision(number), input_.one_of(names), {}, {}};
    const Identity& signer = members_.identity_of(number);
    rewire.key = signer.key();
    rewire.signature = signer.sign(gossip::statement_of(rewire));
    if (input_.byte() < 64) rewire.revision.author = PeerId{input_.below(24)};
    return rewire;
  }

  Input& input_;
  Company& members_;
};

}  // namespace starling::fuzz
