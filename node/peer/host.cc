#include "node/peer/host.h"

#include "node/front/answers.h"
#include "topologies/topology.h"

namespace starling::node {

std::string Host::unready() const {
  if (!parts_.core) return "the peer is still loading its data";
  if (parts_.life >= PeerLife::leaving) return "the peer is leaving";
  if (parts_.phase() == wire::Phase::joining) return "the peer is joining the run";
  return parts_.phase() == wire::Phase::finished ? "the peer has finished the run" : "";
}

// While its owner pauses it, a peer begins no step; it still answers others.
Status Host::rest(bool paused) {
  if (parts_.life != PeerLife::training && parts_.life != PeerLife::settling)
    return Error{"this peer makes no steps now"};
  Trainer& trainer = *parts_.trainer;
  if (paused == trainer.is_paused(PausedBy::owner)) return Done{};
  parts_.events.say(
      spdlog::level::info, paused ? "paused" : "resumed",
      paused ? "this peer is paused until it is asked to resume" : "this peer resumes training");
  teller_.account_time();
  if (paused) {
    trainer.pause(PausedBy::owner);
  } else {
    trainer.resume(PausedBy::owner);
  }
  if (parts_.is_running()) drive_(gossip::VitalsMeasured{teller_.measure_vitals()});
  return Done{};
}

HttpAnswer Host::introduce(const Address& address) {
  if (address == parts_.self.address)
    return http_refusal(400, "this peer itself listens at " + to_string(address));
  drive_(gossip::Introduced{address});
  return {200, introduction_json(address)};
}

HttpAnswer Host::set_topology(const std::string& name) {
  const auto view = parts_.core->view();
  if (view.topology == nullptr || parts_.life == PeerLife::ending)
    return http_refusal(503, "this peer takes no part in the run yet, or no more");
  const auto topology = topologies::Topology::parse(name);
  if (!topology) return http_refusal(400, topology.error().message);
  std::uint32_t trained = 1;
  for (const gossip::Record& record : view.membership.others())
    trained += record.is_live() && record.member.phase >= wire::Phase::training;
  if (const Status exists = topology->exists(trained); !exists)
    return http_refusal(
        400, "among the swarm's " + std::to_string(trained) + " peers now: " + exists.error().message);
  if (const auto why = parts_.core->obstacle_to_setting(*topology)) return http_refusal(409, *why);
  drive_(gossip::RewireRequested{name});
  return {200, topology_request_json(name)};
}

}  // namespace starling::node
