#include "node/front/status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

namespace starling::node {
namespace {

constexpr std::array kLivenessNames = {"alive", "suspect", "failed", "left"};        // by wire::Liveness
constexpr std::array kPhaseNames = {"joining", "training", "settling", "finished"};  // by wire::Phase

MemberStatus status_of(const wire::Member& member) {
  MemberStatus status;
  status.name = member.name;
  status.id = to_string(member.id);
  if (member.address) status.address = to_string(member.address);
  status.state = kLivenessNames.at(static_cast<std::size_t>(member.liveness));
  status.phase = phase_name(member.phase);
  status.incarnation = member.incarnation;
  status.samples = member.samples;
  status.steps = member.steps;
  if (Address::parse(member.http)) status.http = member.http;  // a member may send anything
  status.device = member.device;
  return status;
}

void add_vitals(MemberStatus& status, const std::optional<wire::Vitals>& vitals) {
  if (!vitals) return;
  static_cast<RecentFigures&>(status) = *vitals;
  status.staleness = vitals->staleness;
  if (vitals->partner) status.partner = to_string(vitals->partner);
}

bool trains(const MemberStatus& member) {
  return member.phase == "training" && !member.paused &&
         (member.state == "alive" || member.state == "quarantined");
}

bool is_gone(const MemberStatus& member) { return member.state == "failed" || member.state == "left"; }

// REQUIRES: sorted by name. The latest of several lives is one that lives, else the one that began last.
void mark_earlier_lives(std::vector<MemberStatus>& members) {
  for (auto first = members.begin(); first != members.end();) {
    const auto last =
        std::find_if(first, members.end(), [&](const MemberStatus& m) { return m.name != first->name; });
    std::stable_sort(first, last, [](const MemberStatus& a, const MemberStatus& b) {
      return is_gone(a) != is_gone(b) ? is_gone(b) : a.incarnation > b.incarnation;
    });
    for (auto later = first + 1; later < last; ++later) later->earlier_life = is_gone(*later);
    first = last;
  }
}

}  // namespace

void compare_speeds(std::vector<MemberStatus>& members) {
  std::vector<double> speeds;
  const auto counts = [](const MemberStatus& m) {
    return trains(m) && m.samples_per_second && *m.samples_per_second > 0;
  };
  for (const MemberStatus& member : members)
    if (counts(member)) speeds.push_back(*member.samples_per_second);
  if (speeds.empty()) return;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  for (MemberStatus& member : members)
    if (counts(member)) member.slowdown = *middle / *member.samples_per_second;
}

std::string condition_of(const MemberStatus& member) {
  if (member.state == "left" && member.phase == "finished") return member.phase;
  if (member.state != "alive") return member.state;
  return member.paused && member.phase != "finished" ? "paused" : member.phase;
}

const char* phase_name(wire::Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }

std::vector<MemberStatus> list_members(const gossip::Membership& membership, Instant now,
                                       const std::vector<PeerId>& exchanging) {
  std::vector<MemberStatus> members = {status_of(membership.self())};
  members.front().this_peer = true;
  add_vitals(members.front(), membership.view().vitals);
  for (const gossip::Record& record : membership.others()) {
    MemberStatus& status = members.emplace_back(status_of(record.member));
    if (record.is_live() && record.quarantined_until > now) status.state = "quarantined";
    if (record.last_heard) status.last_heard_seconds = to_seconds(now - *record.last_heard);
    if (record.round_trip.mean > Duration{0}) status.round_trip_seconds = to_seconds(record.round_trip.mean);
    add_vitals(status, record.vitals);
    status.exchanging = std::ranges::count(exchanging, record.member.id) > 0;
  }
  compare_speeds(members);
  for (MemberStatus& member : members) {
    member.condition = condition_of(member);
    if (!trains(member) && member.state != "suspect" && member.samples_per_second)
      member.samples_per_second = 0;
  }
  std::ranges::stable_sort(members, {}, &MemberStatus::name);
  mark_earlier_lives(members);
  return members;
}

void PeerStatus::Exchanges::count(const training::MixCounters& mixed) {
  refused_chunks = training::refused_by_reason(mixed);
  chunks_overlapped = mixed.overlapped;
  chunks_clipped = mixed.clipped;
  lost_weight = mixed.lost_weight;
}

std::string counts_text(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [reason, count] : counts)
    text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(count);
  return text;
}

std::string PeerStatus::Exchanges::losses() const {
  auto counts = refused_chunks;
  if (half_applied_chunks > 0) counts["half_applied"] = half_applied_chunks;
  std::string text = counts_text(counts);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0, resident = 0;
  if (!(file >> pages >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t most_resident_bytes() {
  // Not getrusage's ru_maxrss, which starts at the value of the parent process.
  std::ifstream file("/proc/self/status");
  const std::string key = "VmHWM:";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace starling::node
