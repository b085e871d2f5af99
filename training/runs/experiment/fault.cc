#include "training/runs/experiment/fault.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace starling::training {

LinkChange worse(const LinkChange& a, const LinkChange& b) {
  LinkChange both = a;
  if (b.latency) both.latency = std::max(a.latency.value_or(*b.latency), *b.latency);
  if (b.bandwidth) both.bandwidth = std::min(a.bandwidth.value_or(*b.bandwidth), *b.bandwidth);
  both.drop = std::min(a.drop + b.drop - a.drop * b.drop, std::nextafter(1.0, 0.0));
  return both;
}

const char* name(Fault::Kind kind) { return kFaultKinds[static_cast<std::size_t>(kind)]; }

bool lasts(Fault::Kind kind) {
  return kind == Fault::Kind::slow || kind == Fault::Kind::pause || kind == Fault::Kind::poison ||
         kind == Fault::Kind::link || kind == Fault::Kind::churn;
}

const std::vector<std::string>& poisons() {
  static const std::vector<std::string> kPoisons = {"nan", "inf", "huge", "noise", "sign-flip", "frozen"};
  return kPoisons;
}

Result<Fault> parse_slow(std::string_view text) {
  const auto refuse = [text](const std::string& why) {
    return Error{
        in_quotes(text) + ": " + why +
        "; expected PEER=FACTOR or PEER=FACTOR@FROM..TO, for example 3=10@5s..60s or all=log-normal:sigma=1"};
  };
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return refuse("'=' is missing");
  Fault fault;
  const auto peer = PeerSet::parse(text.substr(0, equals));
  if (!peer) return refuse("the peer " + peer.error().message);
  fault.peer = *peer;

  std::string_view rest = text.substr(equals + 1);
  const auto at = rest.find('@');
  const auto factor = Slowness::parse(rest.substr(0, at));
  if (!factor) return refuse("the factor " + factor.error().message);
  fault.factor = *factor;
  if (at == std::string_view::npos) return fault;

  rest = rest.substr(at + 1);
  const auto dots = rest.find("..");
  if (dots == std::string_view::npos) return refuse("'..' is missing between the times");
  const auto from = parse_seconds(rest.substr(0, dots));
  if (!from) return refuse(from.error().message);
  fault.from = *from;
  if (rest.size() == dots + 2) return fault;
  const auto to = parse_seconds(rest.substr(dots + 2));
  if (!to) return refuse(to.error().message);
  if (*to <= fault.from) return refuse("the second time must be later than the first");
  fault.to = *to;
  return fault;
}

std::string format_slow(const Fault& fault) {
  STARLING_CHECK(fault.kind == Fault::Kind::slow);
  std::string text = fault.peer.text() + "=" + fault.factor.text();
  if (fault.from == Duration{0} && !fault.to) return text;
  text += "@" + format_duration(fault.from) + "..";
  if (fault.to) text += format_duration(*fault.to);
  return text;
}

namespace {

constexpr double kMostPerMinute = 1000;

Status check_link(const Fault& fault) {
  const LinkChange& link = fault.link;
  if (fault.kind != Fault::Kind::link) {
    if (link != LinkChange{}) return Error{"only link has a latency, a bandwidth and a drop"};
    if (fault.other) return Error{"only link has 'other', the other ends of the links"};
    return Done{};
  }
  if (link == LinkChange{}) return Error{"a link needs a latency, a bandwidth or a drop"};
  if (link.latency && (*link.latency < Duration{0} || *link.latency > kLongestTime))
    return Error{"latency is not between 0s and " + format_duration(kLongestTime)};
  if (link.bandwidth && !(*link.bandwidth >= 1 && *link.bandwidth <= 1e15))
    return Error{"bandwidth is not from 1bit/s to 1000000Gbit/s"};
  if (!(link.drop >= 0 && link.drop < 1)) return Error{"drop is not a number from 0 to below 1"};
  if (fault.other && fault.peer.is_one() && *fault.other == fault.peer)
    return Error{"peer " + fault.peer.text() + " has no link to itself; 'other' names another peer"};
  return Done{};
}

bool is_time(Duration time) { return time > Duration{0} && time <= kLongestTime; }

Status check_recurrence(const Fault& fault) {
  const bool pause = fault.kind == Fault::Kind::pause;
  if (!pause && (fault.every || fault.length)) return Error{"only pause has 'every' and 'length'"};
  if (fault.every && !fault.length)
    return Error{"'every' needs a 'length': how long each of the pauses takes"};
  if (fault.length && !fault.every)
    return Error{
        "'length' needs an 'every': how often there is a pause; a single one lasts from 'from' to 'to'"};
  if (!fault.every) return Done{};
  if (!is_time(*fault.every) || !is_time(*fault.length))
    return Error{"'every' and 'length' must be longer than 0s, and at most " + format_duration(kLongestTime)};
  if (*fault.length >= *fault.every) {
    return Error{"a pause of " + format_duration(*fault.length) + " every " + format_duration(*fault.every) +
                 " would never end; 'length' must be shorter than 'every'"};
  }
  return Done{};
}

Status check_churn(const Fault& fault) {
  const Fault::Churn& churn = fault.churn;
  const bool ends = fault.kind == Fault::Kind::crash || fault.kind == Fault::Kind::leave;
  if (fault.back_after && !ends) return Error{"only crash, leave and the table of churn have 'back_after'"};
  for (const auto& back : {fault.back_after, churn.back_after})
    if (back && !is_time(*back))
      return Error{"'back_after' is not between 0s and " + format_duration(kLongestTime)};
  if (fault.kind != Fault::Kind::churn) {
    if (churn != Fault::Churn{}) return Error{"only churn has rates of crashes and leaves"};
    return Done{};
  }
  for (const double rate : {churn.crashes_per_minute, churn.leaves_per_minute}) {
    if (!(rate >= 0 && rate <= kMostPerMinute))
      return Error{"a rate of churn is not a number from 0 to 1000 a minute"};
  }
  if (churn.crashes_per_minute + churn.leaves_per_minute == 0)
    return Error{"churn needs crashes_per_minute or leaves_per_minute above 0"};
  return Done{};
}

Status check_peers(const Fault& fault, std::uint32_t peers) {
  using enum Fault::Kind;
  const bool of_all = fault.kind == slow || fault.kind == pause || fault.kind == link || fault.kind == churn;
  const auto numbered = [peers] {
    return std::to_string(peers) + " peers are numbered from 0 to " + std::to_string(peers - 1);
  };
  if (fault.peer.largest() >= peers) {
    return Error{(fault.peer.is_one() ? "that peer" : "peer " + std::to_string(fault.peer.largest())) +
                 " does not exist; " + numbered()};
  }
  if (fault.other && fault.other->largest() >= peers)
    return Error{"'other': peer " + std::to_string(fault.other->largest()) + " does not exist; " +
                 numbered()};
  const bool everybody = fault.peer.is_all() || (!fault.peer.is_one() && fault.peer.covers(peers));
  if (!of_all && everybody) return Error{"only slow, pause, link and churn can concern all peers"};
  if (fault.kind == churn && peers < 2) return Error{"churn needs at least 2 peers: one always stays"};
  return Done{};
}

}  // namespace

Status check_fault(const Fault& fault, std::uint32_t peers) {
  if (Status fine = check_peers(fault, peers); !fine) return fine;
  if (const auto factor = Slowness::parse(fault.factor.text()); !factor) return factor.error();
  if (fault.kind != Fault::Kind::slow && fault.factor != Slowness()) return Error{"only slow has a factor"};
  const bool poison = fault.kind == Fault::Kind::poison;
  if (poison && std::find(poisons().begin(), poisons().end(), fault.poison) == poisons().end())
    return Error{"the poison " + in_quotes(fault.poison) + " does not exist"};
  if (!poison && !fault.poison.empty()) return Error{"only poison has a poison"};
  if (Status fine = check_link(fault); !fine) return fine;
  if (Status fine = check_recurrence(fault); !fine) return fine;
  if (Status fine = check_churn(fault); !fine) return fine;
  if (fault.from < Duration{0} || fault.from > kLongestTime || (fault.to && *fault.to > kLongestTime))
    return Error{"its times must lie between 0s and " + format_duration(kLongestTime)};
  if (!fault.to) return Done{};
  if (!lasts(fault.kind)) return Error{"only slow, pause, poison, link and churn have 'to'"};
  if (*fault.to <= fault.from) {
    return Error{"from " + format_duration(fault.from) + " to " + format_duration(*fault.to) +
                 ": the second time must be later than the first"};
  }
  return Done{};
}

}  // namespace starling::training
