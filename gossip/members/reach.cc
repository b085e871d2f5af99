#include "gossip/members/reach.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace starling::gossip {

namespace {

constexpr Duration kReportLimit = std::chrono::seconds(10);   // a dial and a handshake, and the way back
constexpr Duration kCheckFound = std::chrono::seconds(15);    // of an address that may change
constexpr Duration kCheckStated = std::chrono::seconds(60);   // of one that the user has stated
constexpr Duration kCheckHidden = std::chrono::seconds(30);   // whether the peer can be dialed now
constexpr Duration kCheckAlone = std::chrono::seconds(5);     // the same, if nobody can be its home
constexpr Duration kCheckAgain = std::chrono::seconds(2);     // nobody could be asked, or no change
constexpr Duration kConfirmedFor = std::chrono::minutes(5);   // a found address, after the last report
constexpr Duration kVisits = std::chrono::seconds(5);         // to homes
constexpr Duration kVisitsWithout = std::chrono::seconds(1);  // to find more homes
constexpr std::size_t kDenials = 2;                           // reports that show that it cannot be dialed

bool is_v6(const Address& address) { return address.host.find(':') != std::string::npos; }

}  // namespace

void Reach::tick(Instant now, Actions& out) {
  const auto can_be_dialed = [](const Record& it) { return it.is_live() && it.member.address; };
  if (view_.finds_out_address && std::ranges::any_of(view_.members.records(), can_be_dialed))
    view_.finds_out_address = false;
  if (is_asking() && (deadline_ <= now || std::ranges::all_of(asked_, &Asked::has_answered))) judge(now, out);
  if (next_check_ <= now) ask(now, out);
  if (next_visit_ <= now) visit_homes(now, out);
}

// ---- this peer's address ----

// Asks members that can be dialed, if there are any: one behind the same router as this peer reaches it at an
// address that no other member can use. If it cannot send to any member, those that it heard last may still
// have a link with it.
void Reach::ask(Instant now, Actions& out) {
  if (!may_listen()) {
    next_check_ = kNever;
    return;
  }
  std::vector<PeerId> able = view_.draw_live(2 * kAsked);
  std::erase_if(able, [this](PeerId id) { return !view_.members.find(id)->responds(); });
  std::ranges::stable_partition(able,
                                [this](PeerId id) { return bool{view_.members.find(id)->member.address}; });
  if (able.empty()) {
    able = hidden_heard_last(kAsked);
    view_.random.shuffle(std::span(able));
  }
  asked_.clear();
  for (const PeerId id : able) {
    const wire::Member& member = view_.members.find(id)->member;
    if (asked_.size() == kAsked || (!member.address && !asked_.empty())) break;
    asked_.push_back({id, ++view_.last_sequence});
    out.push_back(Send{view_.control_endpoint(member), wire::ReachRequest{view_.last_sequence}});
  }
  next_check_ = asked_.empty() ? now + kCheckAgain : kNever;
  deadline_ = asked_.empty() ? kNever : now + kReportLimit;
}

// Members without an address, dead ones included, from which this peer had a message; the latest first.
std::vector<PeerId> Reach::hidden_heard_last(std::size_t most) const {
  std::vector<const Record*> heard;
  for (const Record& record : view_.members.records()) {
    const bool is_gone = record.member.liveness == wire::Liveness::left || record.superseded;
    if (!record.member.address && record.last_heard && !is_gone) heard.push_back(&record);
  }
  const std::size_t count = std::min(heard.size(), most);
  std::ranges::partial_sort(heard, heard.begin() + static_cast<std::ptrdiff_t>(count), std::ranges::greater{},
                            [](const Record* record) { return *record->last_heard; });
  std::vector<PeerId> ids;
  for (std::size_t k = 0; k < count; ++k) ids.push_back(heard[k]->member.id);
  return ids;
}

void Reach::on(Instant now, PeerId from, const wire::ReachReport& report, Actions& out) {
  for (Asked& asked : asked_) {
    if (asked.member != from || asked.sequence != report.sequence || !is_asking()) continue;
    asked.has_answered = true;
    asked.reached = report.reached && report.address;
    asked.address = report.address;
  }
  tick(now, out);
}

void Reach::judge(Instant now, Actions& out) {
  deadline_ = kNever;
  const auto reached = std::ranges::count_if(asked_, &Asked::reached);
  const auto denied =
      std::ranges::count_if(asked_, [](const Asked& it) { return it.has_answered && !it.reached; });
  const bool is_denied =
      reached == 0 && denied > 0 && denied >= static_cast<std::ptrdiff_t>(std::min(kDenials, asked_.size()));
  if (reached > 0 && (confirm(now) || stated_)) {
    publish(stated_ ? std::vector{stated_} : addresses(), out);
  } else if (is_denied && may_withdraw()) {
    known_.clear();
    publish({}, out);
  } else {
    next_check_ = view_.jittered(now, kCheckAgain);
    return;
  }
  const Duration pause = !view_.self.address ? kCheckHidden : stated_ ? kCheckStated : kCheckFound;
  next_check_ = now + pause / 2 + (view_.jittered(now, pause) - now);
}

// A peer without an address takes part through its homes. If it knows nobody who can be one, members would
// lose the last way to one another: no member could dial any other, and a denial may be due to the member
// that denies.
bool Reach::may_withdraw() const { return !view_.self.address || !chosen_homes().empty(); }

// Remembers the addresses at which members have reached this peer. An address that only machines of one site
// can use counts only if no member saw another one: then the whole swarm is at that site.
bool Reach::confirm(Instant now) {
  const bool seen_from_outside = std::ranges::any_of(asked_, [](const Asked& it) {
    return it.has_answered && it.address && !is_local_host(it.address.host);
  });
  // One member could name the address of a third party, which all would dial then.
  const std::ptrdiff_t enough = asked_.size() < kAsked ? 1 : 2;
  std::vector<Address> fresh;
  for (const Asked& it : asked_) {
    if (!it.reached || (seen_from_outside && is_local_host(it.address.host))) continue;
    const auto agree = std::ranges::count_if(
        asked_, [&](const Asked& other) { return other.reached && other.address == it.address; });
    if (agree >= enough && std::ranges::find(fresh, it.address) == fresh.end()) fresh.push_back(it.address);
  }
  // Where an address of the same family was confirmed now, older ones may have moved.
  std::erase_if(known_, [&](const Known& known) {
    const bool again = std::ranges::find(fresh, known.address) != fresh.end();
    const bool replaced =
        std::ranges::any_of(fresh, [&](const Address& it) { return is_v6(it) == is_v6(known.address); });
    return !again && (replaced || known.confirmed + kConfirmedFor <= now);
  });
  for (const Address& address : fresh) {
    const auto found = std::ranges::find(known_, address, &Known::address);
    if (found != known_.end())
      found->confirmed = now;
    else if (known_.size() <= wire::kAlsoMax)
      known_.push_back({address, now});
  }
  return !fresh.empty();
}

std::vector<Address> Reach::addresses() const {
  std::vector<Address> addresses;
  for (const Known& known : known_) addresses.push_back(known.address);
  return addresses;
}

// Changes this peer's record if the addresses are other ones. None: it cannot be dialed.
void Reach::publish(std::vector<Address> addresses, Actions& out) {
  view_.finds_out_address = false;
  const Address first = addresses.empty() ? Address{} : addresses.front();
  std::vector<Address> also = stated_ ? view_.options.reach.also : std::move(addresses);
  if (!first) also.clear();
  if (!stated_ && !also.empty()) also.erase(also.begin());
  if (first == view_.self.address && also == view_.self.also) return;
  view_.change_self([&](wire::Member& self) {
    self.address = first;
    self.also = std::move(also);
    self.relays = first ? view_.options.reach.relays : 0;
    self.homes.clear();
    ++self.incarnation;
  });
  out.push_back(Notice{first ? Notice::What::reachable : Notice::What::hidden, view_.self.id,
                       first ? to_string(first) : "members cannot dial this peer"});
  rumors_.start_self();
  view_.tell_circle(out);
  tell_failed(out);
  next_visit_ = Instant{};
}

// While no member can be dialed, those without an address fail in each other's views. They cannot find out by
// themselves that this one can be dialed again.
void Reach::tell_failed(Actions& out) const {
  if (!view_.self.address) return;
  for (const PeerId id : hidden_heard_last(LocalView::kCircleSize)) {
    const Record& record = *view_.members.find(id);
    if (!record.is_live()) view_.tell(record.member, wire::Gossip{{view_.self}, false, {}}, out);
  }
}

// ---- homes ----

bool Reach::is_home(const Record& record) const {
  return std::ranges::find(view_.self.homes, record.member.id) != view_.self.homes.end();
}

// Those that relay first, so that all members that cannot be dialed reach one another if anyone relays; then
// the present ones.
std::vector<PeerId> Reach::chosen_homes() const {
  std::vector<const Record*> able;
  for (const Record& record : view_.members.records())
    if (record.member.address && record.responds() && record.last_heard) able.push_back(&record);
  const auto rank = [this](const Record* record) {
    // The ids are random, so different peers choose different homes.
    const std::uint64_t drawn = hash64("home", record->member.id.value ^ view_.self.id.value);
    return std::tuple(record->member.relays == 0, !is_home(*record), drawn);
  };
  const std::size_t count = std::min(able.size(), wire::kHomesMax);
  std::ranges::partial_sort(able, able.begin() + static_cast<std::ptrdiff_t>(count), {}, rank);
  std::vector<PeerId> homes;
  for (std::size_t k = 0; k < count; ++k) homes.push_back(able[k]->member.id);
  std::ranges::sort(homes);
  return homes;
}

// Keeps the links to homes in use, and replaces homes that are gone.
void Reach::visit_homes(Instant now, Actions& out) {
  if (view_.self.address) {
    next_visit_ = kNever;
    return;
  }
  std::vector<PeerId> homes = chosen_homes();
  if (homes != view_.self.homes) {
    view_.change_self([&](wire::Member& self) {
      self.homes = homes;
      ++self.incarnation;
    });
    rumors_.start_self();
    for (const PeerId id : homes)
      view_.tell(view_.members.find(id)->member, wire::Gossip{{view_.self}, false, {}}, out);
  }
  if (homes.empty() && may_listen() && !is_asking()) next_check_ = std::min(next_check_, now + kCheckAlone);
  const bool visits = next_ping_ <= now;
  if (visits) next_ping_ = now + kVisits;
  for (const PeerId id : homes) {
    Record& record = *view_.members.find(id);
    if (visits) prober_.probe(now, record, Prober::Helpers::asked, out);
  }
  next_visit_ = now + kVisitsWithout;
}

// ---- for others ----

void Reach::on(Instant now, PeerId from, const Address& address, const wire::ReachRequest& request,
               Actions& out) {
  Record* const record = view_.members.find(from);
  if (!(record != nullptr ? record->relays : strangers_).take(now)) return;
  if (tries_.size() >= kTriesMax) tries_.pop_front();
  tries_.push_back({from, request.sequence, address});
  if (address) {
    out.push_back(TryDial{{from, address}, request.sequence});
  } else {
    tried({from, request.sequence, false}, out);
  }
}

void Reach::tried(const DialTried& tried, Actions& out) {
  const auto is_meant = [&](const Try& it) {
    return it.requester == tried.peer && it.sequence == tried.sequence;
  };
  const auto found = std::ranges::find_if(tries_, is_meant);
  if (found == tries_.end()) return;
  out.push_back(Send{{tried.peer, {}}, wire::ReachReport{tried.sequence, tried.reached, found->address}});
  tries_.erase(found);
}

// A home passes a call on. Its target dials only members, at the addresses that they have signed.
void Reach::on(Instant now, PeerId from, const wire::Call& call, Actions& out) {
  Record* const sender = view_.members.find(from);
  if (sender == nullptr) return;
  if (call.target != view_.self.id) {
    const Record* const target = view_.members.find(call.target);
    const bool is_known = target != nullptr && target->is_live() && !target->member.address;
    const bool may_ask = call.caller == from && call.purpose != wire::Purpose::relay;
    if (is_known && may_ask && sender->relays.take(now)) out.push_back(Send{{call.target, {}}, call});
    return;
  }
  const Record* const caller = view_.members.find(call.caller);
  if (caller == nullptr || !sender->relays.take(now) || !calls_.take(now)) return;
  if (call.purpose == wire::Purpose::relay) {
    if (sender->member.address)
      out.push_back(AnswerCall{endpoint_of(sender->member), call.purpose, call.number});
  } else if (!caller->member.address) {
    return;
  } else if (call.purpose == wire::Purpose::control) {
    out.push_back(
        Send{endpoint_of(caller->member), wire::Ping{++view_.last_sequence, call.caller, {view_.self}}});
  } else {
    out.push_back(AnswerCall{endpoint_of(caller->member), call.purpose, call.number});
  }
}

}  // namespace starling::gossip
