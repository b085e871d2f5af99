// The description of a run.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "lab/hunt/checkers.h"

namespace starling::lab {
namespace {

std::vector<std::string> names_of(const World& world) {
  std::vector<std::string> names;
  for (const MachineOptions& machine : world.options().machines) names.push_back(machine.name);
  return names;
}

const char* outcome_name(gossip::Outcome outcome) {
  static constexpr std::array<const char*, 4> kNames = {"is completed", "is aborted", "is refused",
                                                        "contained poison"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

const char* notice_name(gossip::Notice::What what) {
  static constexpr std::array kNames = {"knows of",
                                        "suspects",
                                        "no longer suspects",
                                        "considers failed",
                                        "learns of the departure of",
                                        "quarantines",
                                        "refutes that it has failed",
                                        "waits:",
                                        "cannot follow the swarm's topology:",
                                        "has lost its own replica",
                                        "does not count the samples of",
                                        "finds one address of two members:",
                                        "can be dialed:",
                                        "cannot be dialed:",
                                        "does not wait for",
                                        "takes for no server:",
                                        "counts most samples of",
                                        "settles without exchanges:",
                                        "waits for those that begin with it:",
                                        "begins with fewer than expected:",
                                        "learns that a joiner is unfit:"};
  static_assert(kNames.size() == static_cast<std::size_t>(gossip::Notice::What::unfit) + 1);
  return kNames.at(static_cast<std::size_t>(what));
}

class Story final : public Checkers {
 public:
  Story(CheckSetting setting, std::string& text) : Checkers(setting), text_(text) {}

  void watch(const World& world) override {
    Checkers::watch(world);
    const WorldOptions& options = world.options();
    text_ += fmt::format("{} machines exchange by the rule {} in {}, on the topology {}.\nIncidents:\n",
                         world.machines(), traits(options.rules->rule).name, traits(options.mix.payload).name,
                         options.rules->topology.name());
    for (const Incident& incident : options.incidents)
      text_ += "  " + sentence(incident, names_of(world)) + "\n";
    text_ += "\nWhat happens:\n";
  }

  void started(std::uint32_t machine) override {
    tell(machine, "starts as instance " + to_string(world_->machine(machine).id));
    Checkers::started(machine);
  }

  void ended(std::uint32_t machine, MachineState state) override {
    static constexpr std::array<const char*, 6> kEnds = {"waits",    "runs",       "has finished",
                                                         "has left", "has failed", "is dead"};
    tell(machine, kEnds.at(static_cast<std::size_t>(state)));
    Checkers::ended(machine, state);
  }

  void event(std::uint32_t machine, const gossip::Event& event) override {
    if (const auto* ended = std::get_if<gossip::ExchangeEnded>(&event)) {
      tell(machine,
           fmt::format("learns that its exchange {} {}", ended->exchange, outcome_name(ended->outcome)));
    } else if (const auto* offered = std::get_if<gossip::ExchangeOffered>(&event)) {
      tell(machine, fmt::format("receives the offer of exchange {} of {} in round {}", offered->exchange,
                                name(offered->from), offered->round));
    } else if (const auto* lost = std::get_if<gossip::StateLost>(&event)) {
      tell(machine, "cannot continue to copy parameters: " + lost->why);
    } else if (const auto* unreachable = std::get_if<gossip::Unreachable>(&event)) {
      tell(machine, "cannot reach " + unreachable->address.host);
    } else if (const auto* answered = std::get_if<gossip::AnswerEnded>(&event)) {
      if (answered->outcome != gossip::Outcome::completed)
        tell(machine,
             fmt::format("aborts its answer to exchange {} of {}", answered->exchange, name(answered->from)));
    } else if (std::holds_alternative<gossip::LeaveRequested>(event)) {
      tell(machine, "is asked to leave");
    }
    Checkers::event(machine, event);
  }

  void action(std::uint32_t machine, const gossip::Action& action) override {
    if (const auto* notice = std::get_if<gossip::Notice>(&action)) {
      tell(machine,
           fmt::format("{} {}", notice_name(notice->what), notice->peer ? name(notice->peer) : notice->text));
    } else if (const auto* begin = std::get_if<gossip::BeginExchange>(&action)) {
      tell(machine, fmt::format("begins exchange {} with {}", begin->exchange, name(begin->partner.id)));
    } else if (const auto* round = std::get_if<gossip::BeginRound>(&action)) {
      tell(machine, fmt::format("begins round {}", round->round));
    } else if (const auto* answer = std::get_if<gossip::AnswerOffer>(&action)) {
      tell(machine, fmt::format("{} exchange {} of {}", answer->accept ? "accepts" : "rejects",
                                answer->exchange, name(answer->from)));
    } else if (const auto* abort = std::get_if<gossip::AbortExchange>(&action)) {
      tell(machine, fmt::format("gives up exchange {}", abort->exchange));
    } else if (const auto* fetch = std::get_if<gossip::FetchState>(&action)) {
      tell(machine, "requests the parameters of " + name(fetch->donor.id));
    } else if (std::holds_alternative<gossip::AbortFetch>(action)) {
      tell(machine, "gives up its donor");
    } else if (std::holds_alternative<gossip::StartTraining>(action)) {
      tell(machine, "trains");
    } else if (const auto* rewired = std::get_if<gossip::Rewired>(&action)) {
      tell(machine, "follows the topology " + rewired->topology);
    } else if (const auto* finish = std::get_if<gossip::Finish>(&action)) {
      tell(machine, "ends " + finish->why);
    }
    Checkers::action(machine, action);
  }

  void answer_changed(std::uint32_t machine, const AnswerChange& change) override {
    if (change.what == AnswerChange::What::displaced)
      tell(machine, fmt::format("ends its answer to exchange {} of {} for one of {}", change.exchange,
                                name(change.from), name(change.further)));
    Checkers::answer_changed(machine, change);
  }

  void has_parameters(std::uint32_t machine) override {
    tell(machine, "has all parameters");
    Checkers::has_parameters(machine);
  }

  void lost_parameters(std::uint32_t machine) override {
    tell(machine, "has lost its parameters");
    Checkers::lost_parameters(machine);
  }

  void half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) override {
    tell(machine, fmt::format("counts chunk {} of exchange {} as half applied", chunk, exchange));
    Checkers::half_applied(machine, exchange, chunk);
  }

  void circuit_opened(std::uint32_t relay, std::uint32_t requester, std::uint32_t target) override {
    tell(relay, fmt::format("relays between {} and {}", name(requester), name(target)));
    Checkers::circuit_opened(relay, requester, target);
  }

  void poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override {
    tell(machine, fmt::format("{} a poisoned chunk of {}", refused ? "refuses" : "accepts", name(from)));
    Checkers::poison_arrived(machine, from, refused);
  }

  void mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override {
    tell(machine,
         fmt::format("{} a frame of {} with a flipped bit", refused ? "refuses" : "accepts", name(from)));
    Checkers::mutation_arrived(machine, from, refused);
  }

  void finish() override {
    Checkers::finish();
    static constexpr std::array<const char*, 4> kLiveness = {"alive", "suspect", "failed", "left"};
    static constexpr std::array<const char*, 4> kPhase = {"joining", "training", "settling", "finished"};
    text_ += fmt::format("\nThe views at {:f} s:\n", to_seconds(world_->now().since_start));
    for (std::uint32_t i = 0; i < world_->machines(); ++i) {
      const auto view = world_->machine(i);
      if (view.state != MachineState::running || view.membership == nullptr) continue;
      const auto& self = view.membership->self();
      text_ += fmt::format("  {} (incarnation {}, {}):", name(i), self.incarnation,
                           kPhase.at(static_cast<std::size_t>(self.phase)));
      for (const gossip::Record& record : view.membership->others()) {
        const wire::Member& member = record.member;
        text_ += fmt::format(" {} {} {} {};", name(member.id),
                             kLiveness.at(static_cast<std::size_t>(member.liveness)), member.incarnation,
                             kPhase.at(static_cast<std::size_t>(member.phase)));
      }
      text_ += "\n";
    }
  }

 private:
  using Checkers::name;
  std::string name(PeerId id) const {
    const auto machine = world_->machine_of(id);
    if (!machine) return to_string(id);
    return name(*machine) + (world_->machine(*machine).id == id ? "" : " (a former instance)");
  }

  void line(Instant at, const std::string& text) {
    text_ += fmt::format("{:12.6f} s  {}\n", to_seconds(at.since_start), text);
  }

  void tell(std::uint32_t machine, const std::string& sentence) {
    tell_incidents();
    line(world_->now(), name(machine) + " " + sentence);
  }

  void tell_incidents() {
    const auto& incidents = world_->options().incidents;
    for (; incidents_told_ < incidents.size(); ++incidents_told_) {
      const Incident& incident = incidents[incidents_told_];
      if (beginning(incident) > world_->now()) return;
      line(beginning(incident), "*** " + sentence(incident, names_of(*world_)));
    }
  }

  std::string& text_;
  std::size_t incidents_told_ = 0;
};

}  // namespace

std::unique_ptr<Checkers> make_story(CheckSetting setting, std::string& text) {
  return std::make_unique<Story>(setting, text);
}

}  // namespace starling::lab
