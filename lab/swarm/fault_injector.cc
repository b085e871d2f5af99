#include "lab/swarm/fault_injector.h"

#include <algorithm>

namespace starling::lab {

using Act = ProcessFault::Act;

FaultInjector::FaultInjector(SwarmRun& run, Launcher& launcher)
    : run_(run),
      launcher_(launcher),
      faults_(run.experiment),
      links_change_(std::any_of(
          run.experiment.faults.begin(), run.experiment.faults.end(),
          [](const training::Fault& fault) { return fault.kind == training::Fault::Kind::link; })) {}

Duration FaultInjector::until_next(Duration limit) const {
  const auto next = faults_.next();
  const auto at = run_.seconds();
  if (!next || !at) return limit;
  return std::clamp(*next - from_seconds(*at), Duration{0}, limit);
}

void FaultInjector::inflict_due() {
  const auto at = run_.seconds();
  if (!at || run_.end_sent) return;
  while (const auto fault = faults_.take(from_seconds(*at))) inflict(*fault);
}

void FaultInjector::inflict(const ProcessFault& fault) {
  Member& member = run_.members[fault.peer];
  switch (fault.act) {
    case Act::links:
      return send_links();
    case Act::start: {
      if (member.started()) return;
      if (Status started = launcher_.start(member); !started) run_.warn(started.error().message);
      return;
    }
    case Act::back:
      if (!member.started()) return;
      member.life.returns = member.life.departing;
      if (!member.running()) launcher_.start_again(member);
      return;
    case Act::pause:
    case Act::resume:
    case Act::crash:
    case Act::leave:
      if (member.running()) inflict_on_running(member, fault.act);
      return;
  }
}

void FaultInjector::inflict_on_running(Member& member, Act act) {
  if (act == Act::pause) launcher_.pause(member);
  if (act == Act::resume) launcher_.resume(member);
  if (act == Act::crash) launcher_.crash(member);
  if (act == Act::leave) launcher_.leave(member);
}

void FaultInjector::send_links() {
  const auto seconds = run_.seconds();
  if (!links_change_ || !seconds) return;
  const training::LinkShape usual{run_.experiment.latency, run_.experiment.bandwidth};
  for (Member& from : run_.members) {
    if (!from.running()) continue;
    for (const Member& to : run_.members) {
      if (to.number == from.number || to.life.address.empty()) continue;
      const training::LinkShape shape =
          training::link_at(run_.experiment, from.number, to.number, from_seconds(*seconds));
      training::LinkShape& sent = from.life.links.try_emplace(to.number, usual).first->second;
      if (shape == sent) continue;
      const Result<Address> address = Address::parse(to.life.address);
      if (!address) continue;
      sent = shape;
      from.life.child->tell(training::format_link_order(
          {*address, shape.latency.value_or(Duration{0}), shape.bandwidth.value_or(0), shape.drop}));
    }
  }
}

}  // namespace starling::lab
