#include "lab/hunt/story.h"

#include <array>
#include <cstdio>
#include <utility>

namespace starling::lab {

namespace {

std::vector<std::string> names_of(const World& world) {
  std::vector<std::string> names;
  for (const MachineOptions& machine : world.options().machines) names.push_back(machine.name);
  return names;
}

const char* outcome_name(gossip::Outcome outcome) {
  static constexpr std::array<const char*, 4> kNames = {"is completed", "broke off", "was refused",
                                                        "met poison"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

const char* notice_name(gossip::Notice::What what) {
  static constexpr std::array<const char*, 10> kNames = {"knows of",
                                                        "suspects",
                                                        "trusts again",
                                                        "takes for failed",
                                                        "sees departed",
                                                        "quarantines",
                                                        "was said to be gone and refutes it",
                                                        "waits:",
                                                        "cannot follow the swarm's topology:",
                                                         "has lost its own replica"};
  return kNames.at(static_cast<std::size_t>(what));
}

}  // namespace

void Story::watch(const World& world) {
  world_ = &world;
  const WorldOptions& options = world.options();
  text_ += std::to_string(world.machines()) + " machines exchange by the rule " +
           std::string(traits(options.rules->rule).name) + " in " +
           std::string(traits(options.mix.payload).name) + ", on the topology " +
           options.rules->topology.name() + ".\nWhat will befall them:\n";
  for (const Incident& incident : world.options().incidents)
    text_ += "  " + sentence(incident, names_of(world)) + "\n";
  text_ += "\nWhat happens:\n";
}

std::string Story::name(std::uint32_t machine) const {
  return world_->options().machines[machine].name;
}

std::string Story::name(PeerId id) const {
  const auto machine = world_->machine_of(id);
  if (!machine) return to_string(id);
  return name(*machine) + (world_->machine(*machine).id == id ? "" : " (a former instance)");
}

void Story::line(Instant at, const std::string& text) {
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%12.6f s  ", to_seconds(at.since_start));
  text_ += stamp + text + "\n";
}

void Story::tell(std::uint32_t machine, const std::string& sentence) {
  tell_incidents();
  line(world_->now(), name(machine) + " " + sentence);
}

void Story::tell_incidents() {
  const auto& incidents = world_->options().incidents;
  for (; incidents_told_ < incidents.size(); ++incidents_told_) {
    const Incident& incident = incidents[incidents_told_];
    if (beginning(incident) > world_->now()) return;
    line(beginning(incident), "*** " + sentence(incident, names_of(*world_)));
  }
}

void Story::started(std::uint32_t machine) {
  tell(machine, "starts as instance " + to_string(world_->machine(machine).id));
  next_.started(machine);
}

void Story::ended(std::uint32_t machine, MachineState state) {
  static constexpr std::array<const char*, 6> kEnds = {"waits",    "runs",       "has finished",
                                                       "has left", "has failed", "is dead"};
  tell(machine, kEnds.at(static_cast<std::size_t>(state)));
  next_.ended(machine, state);
}

void Story::event(std::uint32_t machine, const gossip::Event& event) {
  if (const auto* ended = std::get_if<gossip::ExchangeEnded>(&event)) {
    tell(machine,
         "learns that its exchange " + std::to_string(ended->exchange) + " " + outcome_name(ended->outcome));
  } else if (const auto* lost = std::get_if<gossip::StateLost>(&event)) {
    tell(machine, "cannot go on copying parameters: " + lost->why);
  } else if (const auto* unreachable = std::get_if<gossip::Unreachable>(&event)) {
    tell(machine, "cannot reach " + unreachable->address.host);
  } else if (const auto* answered = std::get_if<gossip::AnswerEnded>(&event)) {
    if (answered->outcome != gossip::Outcome::completed)
      tell(machine, "breaks off its answer to exchange " + std::to_string(answered->exchange) + " of " +
                        name(answered->from));
  } else if (std::holds_alternative<gossip::LeaveRequested>(event)) {
    tell(machine, "is asked to leave");
  }
  next_.event(machine, event);
}

void Story::action(std::uint32_t machine, const gossip::Action& action) {
  if (const auto* notice = std::get_if<gossip::Notice>(&action)) {
    tell(machine, std::string(notice_name(notice->what)) + " " +
                      (!notice->peer && !notice->text.empty()        ? notice->text
                       : notice->peer                                ? name(notice->peer)
                                                                     : std::string()));
  } else if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) {
    tell(machine, "begins exchange " + std::to_string(begin->exchange) + " with " + name(begin->partner));
  } else if (const auto* abort = std::get_if<gossip::AbortExchange>(&action)) {
    tell(machine, "gives exchange " + std::to_string(abort->exchange) + " up");
  } else if (const auto* fetch = std::get_if<gossip::FetchState>(&action)) {
    tell(machine, "asks " + name(fetch->donor) + " for its parameters");
  } else if (std::holds_alternative<gossip::AbortFetch>(action)) {
    tell(machine, "gives its donor up");
  } else if (std::holds_alternative<gossip::StartTraining>(action)) {
    tell(machine, "trains");
  } else if (const auto* rewired = std::get_if<gossip::Rewired>(&action)) {
    tell(machine, "follows the topology " + rewired->topology);
  } else if (const auto* finish = std::get_if<gossip::Finish>(&action)) {
    tell(machine, "ends " + finish->why);
  }
  next_.action(machine, action);
}

void Story::has_parameters(std::uint32_t machine) {
  tell(machine, "has all parameters");
  next_.has_parameters(machine);
}

void Story::lost_parameters(std::uint32_t machine) {
  tell(machine, "has no finite replica any more");
  next_.lost_parameters(machine);
}

void Story::half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) {
  tell(machine, "counts chunk " + std::to_string(chunk) + " of exchange " + std::to_string(exchange) +
                    " as half applied");
  next_.half_applied(machine, exchange, chunk);
}

void Story::poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  tell(machine, std::string(refused ? "refuses" : "takes") + " a spoiled chunk of " + name(from));
  next_.poison_arrived(machine, from, refused);
}

void Story::mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) {
  tell(machine,
       std::string(refused ? "refuses" : "takes") + " a frame of " + name(from) + " with a flipped bit");
  next_.mutation_arrived(machine, from, refused);
}

void Story::finish() {
  static constexpr std::array<const char*, 4> kLiveness = {"alive", "suspect", "failed", "left"};
  static constexpr std::array<const char*, 4> kPhase = {"joining", "training", "settling", "finished"};
  text_ += "\nWhat they believe at " + std::to_string(to_seconds(world_->now().since_start)) + " s:\n";
  for (std::uint32_t i = 0; i < world_->machines(); ++i) {
    const auto view = world_->machine(i);
    if (view.state != MachineState::running || view.membership == nullptr) continue;
    const auto& self = view.membership->self();
    text_ += "  " + name(i) + " (incarnation " + std::to_string(self.incarnation) + ", " +
             kPhase.at(static_cast<std::size_t>(self.phase)) + "):";
    for (const gossip::Record& record : view.membership->others()) {
      const wire::Member* member = &record.member;
      text_ += " " + name(member->id) + " " + kLiveness.at(static_cast<std::size_t>(member->liveness)) + " " +
               std::to_string(member->incarnation) + " " +
               kPhase.at(static_cast<std::size_t>(member->phase)) + ";";
    }
    text_ += "\n";
  }
}

}  // namespace starling::lab
