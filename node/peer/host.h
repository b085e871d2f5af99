// What the HTTP front asks of a running peer, and the commands that it passes on. Of the daemon's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/events.h"
#include "node/front/front.h"
#include "node/peer/parts.h"
#include "node/peer/teller.h"

namespace starling::node {

class Host final : public FrontHost {
 public:
  // `drive` gives the core an event; `leave` ends the peer.
  Host(PeerParts& parts, Teller& teller, std::function<void(gossip::Event)> drive,
       std::function<void()> leave)
      : parts_(parts), teller_(teller), drive_(std::move(drive)), leave_(std::move(leave)) {}

  const gossip::Membership* membership() const override {
    return parts_.core ? &parts_.core->view().membership : nullptr;
  }
  std::string unready() const override;
  PeerStatus status() const override { return teller_.status(); }
  std::vector<MemberStatus> members() const override { return teller_.members(); }
  EventLog& events() override { return parts_.events; }
  training::ConsensusModel consensus_model() const override {
    return training::consensus_model(parts_.experiment);
  }

  void leave() override { leave_(); }
  Status rest(bool paused) override;
  HttpAnswer introduce(const Address& address) override;
  HttpAnswer set_topology(const std::string& name) override;

 private:
  PeerParts& parts_;
  Teller& teller_;
  std::function<void(gossip::Event)> drive_;
  std::function<void()> leave_;
};

}  // namespace starling::node
