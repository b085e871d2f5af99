#include "lab/hunt/reach_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace starling::lab {

namespace {

constexpr std::uint64_t kEnoughCalls = 6;  // some of them are answered

}  // namespace

void ReachChecks::remember(std::uint32_t machine) {
  const wire::Member& self = world_->machine(machine).membership->self();
  stated_[self.id.value].push_back(self.address);
  hides_ = hides_ || !self.address;
  if (self.relays > 0) has_offered_.insert(machine);
}

void ReachChecks::started(std::uint32_t machine) {
  called_[machine].clear();
  has_offered_.erase(machine);
  remember(machine);
}

ReachChecks::Finding ReachChecks::action(std::uint32_t machine, const gossip::Action& action, bool counts) {
  using What = gossip::Notice::What;
  if (const auto* notice = std::get_if<gossip::Notice>(&action)) {
    if (notice->what == What::reachable || notice->what == What::hidden) remember(machine);
    return {};
  }
  if (!hides_) return {};
  if (const auto* send = std::get_if<gossip::Send>(&action)) {
    // An answer goes back where its request came from, even if the link has broken meanwhile.
    const bool is_answer = std::holds_alternative<wire::Ack>(send->message) ||
                           std::holds_alternative<wire::ReachReport>(send->message);
    return is_answer ? Finding{} : way(machine, send->to, Uses::message);
  }
  if (const auto* fetch = std::get_if<gossip::FetchState>(&action))
    return way(machine, fetch->donor, Uses::bulk);
  if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) {
    const bool is_passed_on = begin->partner.way == Way::call && begin->partner.via != begin->partner.id;
    if (is_passed_on && counts) called_[machine].push_back(begin->exchange);
    return way(machine, begin->partner, Uses::bulk);
  }
  return {};
}

// Whether this step may have brought this record: it is the first that uses a way which the record excludes.
// An action follows from what its peer knew when it added it.
bool ReachChecks::is_news(std::uint32_t machine, const wire::Member& member) {
  const auto found =
      excluded_.try_emplace({machine, member.id}, Excluded{member.incarnation, world_->now()}).first;
  Excluded& earlier = found->second;
  if (earlier.incarnation != member.incarnation) earlier = {member.incarnation, world_->now()};
  return earlier.at == world_->now();
}

// Without an address and without a way nothing is dialed: the driver reports that at once.
ReachChecks::Finding ReachChecks::way(std::uint32_t machine, const Endpoint& to, Uses uses) {
  const auto view = world_->machine(machine);
  const gossip::Record* const record = to.id ? view.membership->find(to.id) : nullptr;
  if (record == nullptr) return {};
  const gossip::Record* const via = to.via ? view.membership->find(to.via) : nullptr;
  const bool is_own_guest = to.way == Way::call && to.via == to.id;  // called over their link
  const bool is_helped = to.way != Way::dial && !is_own_guest;
  if (is_helped && (via == nullptr || (!via->member.address && !is_news(machine, via->member))))
    return fmt::format("{} reaches {} through {}, which cannot be dialed", name(machine), to_string(to.id),
                       to_string(to.via));
  const bool may_relay = via != nullptr && (via->member.relays > 0 || is_news(machine, via->member));
  if (to.way == Way::relay && (uses != Uses::bulk || !may_relay))
    return fmt::format("{} reaches {} over {}, which does not relay", name(machine), to_string(to.id),
                       to_string(to.via));
  if (to.way != Way::dial || !to.address || record->member.address || !record->is_live()) return {};
  const auto there = world_->machine_of(to.id);
  if (uses == Uses::message && there && world_->linked(machine, *there)) return {};
  if (is_news(machine, record->member)) return {};
  return fmt::format("{} dials {} at {}, which states no address", name(machine), to_string(to.id),
                     to_string(to.address));
}

void ReachChecks::exchange_ended(std::uint32_t machine, std::uint64_t exchange, bool answered) {
  if (std::erase(called_[machine], exchange) > 0) ++(answered ? calls_answered_ : calls_failed_);
}

// A relay that finds no address for itself any more withdraws its offer. Members that have not heard of this
// still ask it, and it still relays for them.
ReachChecks::Finding ReachChecks::circuit_opened(std::uint32_t relay, std::uint32_t requester,
                                                 std::uint32_t target) const {
  if (has_offered_.contains(relay)) return {};
  return fmt::format("{} relays between {} and {}, and does not say so", name(relay), name(requester),
                     name(target));
}

bool ReachChecks::is_stated(const wire::Member& member, const wire::Member& self) const {
  if (member.incarnation == self.incarnation)
    return member.address == self.address && member.homes == self.homes && member.relays == self.relays;
  const auto found = stated_.find(member.id.value);
  return found != stated_.end() && std::ranges::find(found->second, member.address) != found->second.end();
}

bool ReachChecks::addresses_differ() const {
  for (std::uint32_t i = 0; i < world_->machines(); ++i) {
    const auto view = world_->machine(i);
    if (view.state != MachineState::running || view.membership == nullptr) continue;
    const Address& address = view.membership->self().address;
    if (address ? !world_->can_be_dialed(i, address) : world_->can_be_dialed(i)) return true;
  }
  return false;
}

bool ReachChecks::are_apart() const {
  for (std::uint32_t i = 0; i < world_->machines(); ++i) {
    if (world_->machine(i).state == MachineState::running && world_->can_be_dialed(i)) return false;
  }
  return true;
}

bool ReachChecks::may_be_alone(std::uint32_t machine) const {
  if (world_->can_be_dialed(machine)) return false;
  for (std::uint32_t i = 0; i < world_->machines(); ++i) {
    const auto view = world_->machine(i);
    if (view.state == MachineState::running && view.membership->self().relays > 0) return false;
  }
  return true;
}

ReachChecks::Finding ReachChecks::final_record(std::uint32_t machine) const {
  const wire::Member& self = world_->machine(machine).membership->self();
  if (self.address) {
    if (world_->can_be_dialed(machine, self.address)) return {};
    return fmt::format("at the end {} states the address {}, where it cannot be dialed", name(machine),
                       to_string(self.address));
  }
  if (world_->can_be_dialed(machine))
    return fmt::format("at the end {} states no address and can be dialed", name(machine));
  if (self.homes.empty()) return fmt::format("at the end {} has no homes", name(machine));
  for (const PeerId id : self.homes) {
    const auto home = world_->machine_of(id);
    const bool is_up = home && world_->machine(*home).state == MachineState::running;
    if (!is_up || !world_->can_be_dialed(*home))
      return fmt::format("at the end {} has the home {}, which cannot be dialed", name(machine),
                         to_string(id));
  }
  return {};
}

ReachChecks::Finding ReachChecks::final_calls() const {
  if (calls_answered_ > 0 || calls_failed_ < kEnoughCalls) return {};
  return fmt::format("none of the {} calls for exchanges since the faults ended was answered", calls_failed_);
}

}  // namespace starling::lab
