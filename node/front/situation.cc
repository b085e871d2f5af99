#include "node/front/situation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace starling::node {
namespace {

// A loss counts as lower if it is lower by this part.
constexpr double kLower = 0.01;
// Below this loss the model has learned its batches, and a lower one means nothing.
constexpr double kLearned = 0.001;
// The loss counts as falling if it was at its lowest within this time, or this part of the history.
constexpr double kRecentSeconds = 20, kRecentPart = 0.1;
constexpr std::size_t kNamed = 3;

std::string about_the_loss(const std::vector<HistoryPoint>& history) {
  std::optional<double> lowest;
  double lowest_at = 0;
  for (const HistoryPoint& point : history) {
    if (!point.loss || (lowest && *point.loss > *lowest * (1 - kLower))) continue;
    lowest = point.loss;
    lowest_at = point.seconds;
  }
  if (!lowest) return "";
  if (!history.back().loss) return "the loss is not finite";
  if (history.back().loss.value_or(1) < kLearned) return fmt::format("the loss is below {:g}", kLearned);
  const double since = history.back().seconds - lowest_at;
  const double span = history.back().seconds - history.front().seconds;
  if (since <= std::max(kRecentSeconds, kRecentPart * span)) return "the loss still falls";
  return fmt::format("the loss has not fallen below {:.3g} for {}", *lowest, format_span(since));
}

// "p1 and p2", "p1, p2, p3 and 4 more".
std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t k = 0; k < std::min(names.size(), kNamed); ++k) {
    const bool last = k > 0 && k + 1 == names.size();
    text += (k == 0 ? "" : last ? " and " : ", ") + names[k];
  }
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

struct Group {
  std::string_view condition;
  std::string_view one, more;  // after the names
};
constexpr Group kGroups[] = {
    {"failed", "has failed", "have failed"},
    {"suspect", "does not answer", "do not answer"},
    {"quarantined", "is quarantined: its parameters were rejected",
     "are quarantined: their parameters were rejected"},
    {"paused", "is paused", "are paused"},
};

// "p3 has failed; p1 is 5.5x slower than the median member (cpu)"; empty if all keep up.
std::string about_others(const std::vector<MemberStatus>& members, Duration own_pace) {
  std::string text;
  const auto add = [&text](const std::string& sentence) { text += (text.empty() ? "" : "; ") + sentence; };
  for (const Group& group : kGroups) {
    std::vector<std::string> names;
    for (const MemberStatus& member : members)
      if (member.condition == group.condition && !member.earlier_life && !member.this_peer)
        names.push_back(member.name);
    if (!names.empty())
      add(fmt::format("{} {}", names_of(names), names.size() == 1 ? group.one : group.more));
  }
  std::vector<const MemberStatus*> slow;
  for (const MemberStatus& member : members)
    if (member.slowdown.value_or(1) >= kStraggles) slow.push_back(&member);
  std::ranges::stable_sort(slow, [](auto* a, auto* b) { return *a->slowdown > *b->slowdown; });
  for (std::size_t k = 0; k < std::min(slow.size(), kNamed); ++k) {
    const MemberStatus& member = *slow[k];
    const bool asked = member.this_peer && own_pace > Duration{0};
    const std::string why = asked ? " (it makes at most a step in " + format_duration(own_pace) + ")"
                            : member.device.empty() ? ""
                                                    : " (its device: " + member.device + ")";
    add(fmt::format("{} is {} slower than the median member{}", member.this_peer ? "this peer" : member.name,
                    format_factor(*member.slowdown), why));
  }
  if (slow.size() > kNamed) add(fmt::format("{} more members are slow", slow.size() - kNamed));
  return text;
}

}  // namespace

std::string situation_of(const PeerStatus& status, const std::vector<MemberStatus>& members,
                         const std::string& progress, const std::vector<HistoryPoint>& history,
                         Duration pace) {
  if (status.condition == "joining") return "This peer joins the swarm and copies the model.";
  if (status.condition == "leaving") return "This peer leaves the swarm.";
  if (status.condition == "finished") return "The run is finished.";
  std::string text = "This peer trains";
  if (status.condition == "paused") text = "This peer is paused until its owner resumes it";
  if (status.condition == "settling") text = "Training is over and the replicas settle";
  if (!progress.empty()) text += ": " + progress;
  if (const std::string loss = about_the_loss(history); !loss.empty() && status.condition == "training")
    text += ", " + loss;
  text += ".";
  std::string others = about_others(members, pace);
  const auto live = std::ranges::count_if(
      members, [](const MemberStatus& m) { return m.state == "alive" || m.state == "quarantined"; });
  if (others.empty()) {
    if (live < 2) return text + " No other member is there yet.";
    return text + fmt::format(" All {} members keep up.", live);
  }
  if (others.starts_with("this peer")) others[0] = 'T';
  return text + " " + others + ".";
}

std::string waiting_situation(const gossip::JointStart::Awaited& awaited, Instant now,
                              const std::vector<Happening>& happenings) {
  std::string text = fmt::format("This peer waits: {} of {} peers that begin together are there",
                                 awaited.ready, awaited.expected);
  if (awaited.until != kNever)
    text += fmt::format("; it begins without the others in {}", format_span(to_seconds(awaited.until - now)));
  const auto unfit = std::ranges::find(happenings.rbegin(), happenings.rend(), "unfit", &Happening::what);
  return unfit == happenings.rend() ? text + "." : text + ". The " + unfit->text + ".";
}

}  // namespace starling::node
