#include "lab/hunt/answer_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling::lab {
namespace {

// An answer that has a chunk cannot be slow in this time, as any machine's clock measures it.
constexpr Duration kNeverSlow = std::chrono::milliseconds(1900);

}  // namespace

void AnswerChecks::watch(const World& world) {
  world_ = &world;
  of_.resize(world.machines());
}

const std::string& AnswerChecks::name(PeerId peer) const {
  return world_->options().machines[*world_->machine_of(peer)].name;
}

std::uint64_t AnswerChecks::wasted(const Answers& answers, PeerId peer) {
  const auto found = answers.wasted.find(peer);
  return found == answers.wasted.end() ? 0 : found->second;
}

std::size_t AnswerChecks::count(const Answers& answers, PeerId peer) {
  return static_cast<std::size_t>(std::ranges::count(answers.under_way, peer, &Answer::from));
}

AnswerChecks::Answer* AnswerChecks::find(Answers& answers, PeerId from, std::uint64_t exchange) {
  const auto found = std::ranges::find_if(
      answers.under_way, [&](const Answer& it) { return it.from == from && it.exchange == exchange; });
  return found == answers.under_way.end() ? nullptr : &*found;
}

void AnswerChecks::event(std::uint32_t machine, const gossip::Event& event) {
  const auto* const ended = std::get_if<gossip::AnswerEnded>(&event);
  if (ended == nullptr) return;
  Answers& answers = of_[machine];
  const Answer* const found = find(answers, ended->from, ended->exchange);
  if (found == nullptr) return;
  if (ended->outcome == gossip::Outcome::completed) {
    answers.wasted.erase(ended->from);
  } else if (!found->has_chunk) {
    ++answers.wasted[ended->from];
  }
  answers.under_way.erase(answers.under_way.begin() + (found - answers.under_way.data()));
}

AnswerChecks::Finding AnswerChecks::changed(std::uint32_t machine, const AnswerChange& change) {
  using What = AnswerChange::What;
  Answers& answers = of_[machine];
  if (change.what == What::began) {
    answers.under_way.push_back({change.from, change.exchange, world_->now(), world_->now()});
    return std::nullopt;
  }
  Answer* const answer = find(answers, change.from, change.exchange);
  if (answer == nullptr)
    return fmt::format("{} continues exchange {} of {}, which it does not answer",
                       world_->options().machines[machine].name, change.exchange, name(change.from));
  if (change.what == What::displaced) return displaced(machine, change, *answer);
  answer->has_chunk = true;
  answer->moved = world_->now();
  return std::nullopt;
}

AnswerChecks::Finding AnswerChecks::displaced(std::uint32_t machine, const AnswerChange& change,
                                              const Answer& ended) const {
  const Answers& answers = of_[machine];
  const auto& [what, from, exchange, further] = change;
  const std::string& self = world_->options().machines[machine].name;
  if (from == further && count(answers, from) >= world_->options().answers.answers_per_peer) {
    const bool oldest = std::ranges::all_of(answers.under_way, [&](const Answer& other) {
      return other.from != ended.from || ended.moved <= other.moved;
    });
    if (oldest) return std::nullopt;
    return fmt::format("{} ends a later answer of {} than its oldest one", self, name(from));
  }
  if (ended.has_chunk && world_->now() - ended.began < kNeverSlow)
    return fmt::format("{} ends the answer to exchange {} of {}, which moves", self, exchange, name(from));
  if (wasted(answers, from) < wasted(answers, further))
    return fmt::format("{} ends an answer of {} for {}, which wasted more", self, name(from), name(further));
  for (const Answer& other : answers.under_way) {
    if (!other.has_chunk && wasted(answers, other.from) > wasted(answers, from))
      return fmt::format("{} ends an answer of {} and keeps one without a chunk of {}, which wasted more",
                         self, name(from), name(other.from));
  }
  return std::nullopt;
}

AnswerChecks::Finding AnswerChecks::look(std::uint32_t machine) const {
  const Answers& answers = of_[machine];
  const WorldOptions& options = world_->options();
  for (const Answer& answer : answers.under_way) {
    // Without those that have just begun: an earlier one ends at this instant.
    const auto number =
        static_cast<std::size_t>(std::ranges::count_if(answers.under_way, [&](const Answer& it) {
          return it.from == answer.from && it.began < world_->now();
        }));
    if (number > options.answers.answers_per_peer)
      return fmt::format("{} has {} answers of {}", options.machines[machine].name, number,
                         name(answer.from));
  }
  const bool limited = traits(options.rules->rule).meeting == Meeting::whenever;
  if (limited && answers.under_way.size() > options.peer.answers_max)
    return fmt::format("{} has {} answers, and its limit is {}", options.machines[machine].name,
                       answers.under_way.size(), options.peer.answers_max);
  return std::nullopt;
}

}  // namespace starling::lab
