#include "node/discovery/neighborhood.h"

#include <algorithm>

#include "node/discovery/announcement.h"

namespace starling::node {

void Neighborhood::see(const Sighting& sighting) {
  entries_.erase(sighting.service);
  const auto announced = parse_announcement(sighting.txt);
  if (!announced) {
    ++ignored_.malformed;
  } else if (announced->id == self_) {
    return;
  } else if (announced->swarm != swarm_) {
    ++ignored_.other_swarms;
  } else if (std::ranges::find(tags_, announced->tag) == tags_.end()) {
    ++ignored_.other_keys;
  } else if (!is_dialable(sighting.address)) {
    ++ignored_.not_dialable;
  } else if (entries_.size() >= kSightingsMax) {
    ++ignored_.too_many;
  } else {
    Entry entry{{announced->id, sighting.address}, Instant{Duration::min()}};
    for (const auto& [service, other] : entries_) {  // the same on another interface
      if (other.peer == entry.peer) entry = other;
    }
    entries_.emplace(sighting.service, std::move(entry));
  }
}

std::optional<Endpoint> Neighborhood::next(Instant now, const std::function<bool(PeerId)>& is_known) {
  const Entry* first = nullptr;
  for (const auto& [service, entry] : entries_) {
    if (entry.due > now || is_known(entry.peer.id)) continue;
    if (first == nullptr || entry.due < first->due) first = &entry;
  }
  if (first == nullptr) return std::nullopt;
  const Endpoint peer = first->peer;
  for (auto& [service, entry] : entries_)
    if (entry.peer == peer) entry.due = now + kRetry;
  return peer;
}

void Neighborhood::answered(const Endpoint& peer) {
  for (auto& [service, entry] : entries_)
    if (entry.peer == peer) entry.answered = true;
}

std::vector<Address> Neighborhood::contacts() const {
  std::vector<Address> addresses;
  for (const auto& [service, entry] : entries_) {
    const bool is_new = std::ranges::find(addresses, entry.peer.address) == addresses.end();
    if (entry.answered && is_new && addresses.size() < kContactsMax) addresses.push_back(entry.peer.address);
  }
  return addresses;
}

}  // namespace starling::node
