#include "node/front/event_log.h"

#include <spdlog/spdlog.h>

#include <array>
#include <optional>
#include <utility>

namespace starling::node {
namespace {

using Clock = std::chrono::steady_clock;

struct NoticeText {
  const char* word;
  spdlog::level::level_enum level;
  const char *before, *after;  // around the notice's own text
  bool of_member;              // the event is about the notice's peer
};
// By gossip::Notice::What.
constexpr std::array<NoticeText, 21> kNoticeTexts = {{
    {"joined", spdlog::level::info, "member ", " has joined", true},
    {"suspected", spdlog::level::info, "member ", " is suspected to be down", true},
    {"recovered", spdlog::level::info, "member ", " is alive", true},
    {"failed", spdlog::level::warn, "member ", " has failed", true},
    {"left", spdlog::level::info, "member ", " has left", true},
    {"quarantined", spdlog::level::warn, "member ",
     " sends unusable parameters; no exchange with it for a while", true},
    {"refuted", spdlog::level::warn, "", " reported that this peer is down; this peer has refuted that",
     false},
    {"waiting", spdlog::level::warn, "", "; trying again", false},
    {"unwired", spdlog::level::warn,
     "the swarm changed to a topology that this version does not support: ", "", false},
    {"diverged", spdlog::level::warn, "", "; it copies the parameters of another member", false},
    {"incredible", spdlog::level::warn, "", ", more than it can have consumed; they do not count", true},
    {"conflict", spdlog::level::warn,
     "two peers advertise the same address: ", "; each needs an --advertise of its own", true},
    {"reachable", spdlog::level::info, "others can dial this peer at ", "", false},
    {"hidden", spdlog::level::info, "", ", so it dials them; some members call it on behalf of others",
     false},
    {"silent", spdlog::level::warn, "member ", "", true},
    {"contested", spdlog::level::err, "member ",
     " has the name of a parameter server that another live member holds; nobody pushes to it", true},
    {"leads", spdlog::level::warn, "member ",
     " claims more than half of the samples since it came, much faster than others; it decides when the run "
     "ends",
     true},
    {"unsettled", spdlog::level::warn,
     "no member was found for the last exchanges of the run: ", " fewer than planned", false},
    {"assembling", spdlog::level::info, "", " peers that begin together are there", false},
    {"incomplete", spdlog::level::warn, "training begins with ",
     " peers that were to begin together; nobody else has come for half a minute", false},
    {"unfit", spdlog::level::warn, "member ", "", true},
}};

}  // namespace

void EventLog::say(spdlog::level::level_enum level, std::string what, std::string text, PeerId peer) {
  spdlog::log(level, "{}", text);
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  kept_.push_back(
      {next_++, seconds, std::chrono::system_clock::now(), level, std::move(what), peer, std::move(text)});
  if (kept_.size() > kKept) kept_.pop_front();
}

std::vector<Happening> EventLog::since(std::uint64_t number) const {
  std::vector<Happening> found;
  for (const Happening& happening : kept_) {
    if (happening.number > number) found.push_back(happening);
  }
  return found;
}

void EventLog::rewired(const std::string& topology) {
  const auto unlogged = rewired_.count(Clock::now(), "rewired", topology);
  if (!unlogged) return;
  say(spdlog::level::info, "rewired",
      with_unlogged("the swarm's topology is " + topology + " from now on", *unlogged));
}

std::string EventLog::tell(const gossip::Notice& notice) {
  using What = gossip::Notice::What;
  const NoticeText& it = kNoticeTexts.at(static_cast<std::size_t>(notice.what));
  const bool waiting = notice.what == What::waiting;
  std::optional<std::uint64_t> unlogged = 0;
  if (notice.what != What::diverged) {  // which other machines cannot cause
    const std::string source = it.of_member ? to_string(notice.peer) : notice.text;
    unlogged = (waiting ? waiting_ : notices_).count(Clock::now(), it.word, source);
  }
  if (!unlogged) return {};
  std::string text = it.before + notice.text + it.after;
  if (!waiting) text = with_unlogged(text, *unlogged);  // a peer that waits tries many times
  say(it.level, it.word, text, it.of_member ? notice.peer : PeerId{});
  return text;
}

}  // namespace starling::node
