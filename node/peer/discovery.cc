#include "node/peer/discovery.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "node/discovery/announcement.h"
#include "transport/coroutines.h"
#include "transport/trust/discovery_tag.h"

namespace starling::node {
namespace {

constexpr Duration kAvahiLimit = std::chrono::seconds(5);    // for its first answer
constexpr Duration kSearchWindow = std::chrono::seconds(2);  // to be found
constexpr Duration kLastTries = std::chrono::seconds(1);     // then, for peers that have not answered yet
constexpr Duration kTryPause = std::chrono::seconds(1);      // between tries of a peer that takes part
constexpr std::size_t kTriesAtOnce = 8, kTriesLater = 2;

LocalService::Family family_of(const std::string& listening) {
  if (listening.find(':') != std::string::npos)
    return is_any_host(listening) ? LocalService::Family::any : LocalService::Family::v6;
  const bool is_literal = listening.find_first_not_of("0123456789.") == std::string::npos;
  return is_literal ? LocalService::Family::v4 : LocalService::Family::any;
}

}  // namespace

// ---- the search at the start ----

void Discovery::open(Found found) {
  found_ = std::move(found);
  stage_ = Stage::opening;
  neighborhood_ = std::make_unique<Neighborhood>(listening_.self().swarm, listening_.self().id);
  neighborhood_->set_tags(tags_ = tags());
  AvahiEvents events;
  events.opened = [this](const Status& status) { opened(status); };
  events.seen = [this](const Sighting& sighting) {
    neighborhood_->see(sighting);
    if (stage_ == Stage::searching) try_peers();
  };
  events.lost = [this](const std::string& service) { neighborhood_->lose(service); };
  events.changed = [this](bool answers) { changed(answers); };
  events.unannounced = [this](const std::string& problem) {
    started_.events.say(spdlog::level::warn, "discovery",
                        "the Avahi daemon does not announce this peer: " + problem);
  };
  avahi_ = std::make_unique<Avahi>(started_.io.get_executor(), std::move(events));
  wait_for(kAvahiLimit, [this] {
    if (stage_ != Stage::opening) return;
    decide(Error{"--discover: the Avahi daemon of this machine does not answer; restart avahi-daemon"});
  });
}

void Discovery::wait_for(Duration time, std::function<void()> then) {
  timer_.expires_after(time);
  timer_.async_wait([then = std::move(then)](const asio::error_code& error) {
    if (!error) then();
  });
}

void Discovery::opened(const Status& status) {
  if (stage_ != Stage::opening) return;
  if (!status) return decide(Error{"--discover: " + status.error().message});
  if (!started_.options.join.empty()) return decide(std::vector<Address>{});
  stage_ = Stage::searching;
  spdlog::info("looking for peers of swarm '{}' on this network", listening_.self().swarm);
  wait_for(kSearchWindow, [this] {
    window_over_ = true;
    if (trying_ == 0 || !neighborhood_->contacts().empty()) return finish_search();
    wait_for(kLastTries, [this] { finish_search(); });
  });
}

void Discovery::finish_search() {
  if (stage_ != Stage::searching) return;
  const Neighborhood::Ignored& ignored = neighborhood_->ignored();
  spdlog::debug(
      "announcements ignored: {} of other swarms, {} with another key, {} malformed, {} at unusable "
      "addresses, {} too many",
      ignored.other_swarms, ignored.other_keys, ignored.malformed, ignored.not_dialable, ignored.too_many);
  decide(neighborhood_->contacts());
}

void Discovery::decide(const Result<std::vector<Address>>& found) {
  if (stage_ != Stage::opening && stage_ != Stage::searching) return;
  stage_ = found ? Stage::joining : Stage::closed;
  timer_.cancel();
  found_(found);
}

// ---- the tries ----

void Discovery::try_peers() {
  using Done = std::function<void(const transport::LinkStatus&)>;
  const auto attempt = [](transport::LinkTable& links, Endpoint to, Done done) -> asio::awaitable<void> {
    const transport::LinkStatus status = co_await links.try_dial(std::move(to));
    done(status);
  };
  while (trying_ < (stage_ == Stage::searching ? kTriesAtOnce : kTriesLater)) {
    const auto peer = neighborhood_->next(started_.now(), [this](PeerId id) { return lives_.is_member(id); });
    if (!peer) return;
    ++trying_;
    Done done = [this, to = *peer](const transport::LinkStatus& status) { tried(to, status); };
    transport::spawn(started_.io.get_executor(), attempt(listening_.links(), *peer, std::move(done)));
    if (stage_ != Stage::searching) return;
  }
}

void Discovery::tried(const Endpoint& peer, const transport::LinkStatus& status) {
  --trying_;
  const auto now = LogLimiter::Clock::now();
  if (status.ok()) {
    neighborhood_->answered(peer);
    if (stage_ == Stage::taking_part) introduce(peer);
  } else if (const auto unlogged = lines_.count(now, "silent", peer.address.host)) {
    // The error's sentence may quote a stranger.
    spdlog::warn("a peer of swarm '{}' is announced at {}, but this one cannot connect to it: {}",
                 listening_.self().swarm, to_string(peer.address),
                 with_unlogged(std::string(transport::in_words(status.error().kind)), *unlogged));
  }
  if (stage_ != Stage::searching) return;
  try_peers();
  if (window_over_ && (trying_ == 0 || status.ok())) finish_search();
}

// The core pings the address until it knows a member there; then the views of both swarms merge.
void Discovery::introduce(const Endpoint& peer) {
  if (!lives_.is_running() || lives_.is_member(peer.id)) return;
  if (const auto unlogged = lines_.count(LogLimiter::Clock::now(), "introduced", peer.address.host)) {
    started_.events.say(spdlog::level::info, "discovered",
                        with_unlogged(fmt::format("discovered {} of swarm '{}' at {}", to_string(peer.id),
                                                  listening_.self().swarm, to_string(peer.address)),
                                      *unlogged));
  }
  drive_(gossip::Introduced{peer.address});
}

// ---- the announcement ----

// Empty if the file of the keys cannot be read.
std::vector<std::string> Discovery::tags() const {
  if (!started_.options.tls) return {std::string(kOpenTag)};
  std::vector<std::string> tags;
  const auto& keys = listening_.keys();
  for (std::size_t i = 0; keys && i < keys->entries.size(); ++i)
    tags.push_back(transport::discovery_tag(keys->entries[i].key, listening_.self().swarm));
  return tags;
}

void Discovery::announce() {
  const Address& listening = listening_.address();
  if (!listening || tags_.empty()) return;
  const Announcement announcement{listening_.self().swarm, listening_.self().id, tags_.front()};
  avahi_->announce({listening_.self().name, listening.port, family_of(listening.host), to_txt(announcement)});
}

void Discovery::take_part() {
  if (stage_ != Stage::joining) return;
  stage_ = Stage::taking_part;
  announce();
}

void Discovery::withdraw() {
  if (stage_ == Stage::taking_part) avahi_->withdraw();
  stage_ = Stage::closed;
}

void Discovery::changed(bool answers) {
  if (stage_ == Stage::closed) return;
  if (!answers) neighborhood_->clear();
  started_.events.say(answers ? spdlog::level::info : spdlog::level::warn, "discovery",
                      answers
                          ? "the Avahi daemon answers again"
                          : "the Avahi daemon went away; until it is back, this peer is neither announced on "
                            "this network nor discovers others there");
}

void Discovery::tick() {
  if (stage_ != Stage::taking_part) return;
  auto current = tags();  // the keys may have changed
  if (!current.empty() && current != tags_) {
    const bool is_other = tags_.empty() || current.front() != tags_.front();
    neighborhood_->set_tags(tags_ = std::move(current));
    if (is_other) announce();
  }
  if (started_.now() < next_try_) return;
  next_try_ = started_.now() + kTryPause;
  try_peers();
}

}  // namespace starling::node
