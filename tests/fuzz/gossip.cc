// A peer's core in a swarm of honest and hostile members: the input is thousands of steps. The core never
// fails, its queues and tables stay bounded, and it believes nothing false about honest members.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "tests/fuzz/gossip_invariants.h"
#include "tests/fuzz/gossip_members.h"
#include "tests/fuzz/gossip_messages.h"

using namespace starling;
using namespace starling::fuzz;
using namespace std::chrono_literals;

namespace {

constexpr int kStepsMax = 4096;
constexpr std::size_t kMembersMax = 48;

const std::array<std::string, 6> kTopologies{
    "complete", "ring", "exponential", "star", "one-peer-exponential", "random-regular:k=3"};
const std::array<Duration, 12> kPauses{0s, 1ms, 10ms, 100ms, 250ms, 500ms, 1s, 3s, 10s, 60s, 1h, 100h};

class Session {
 public:
  explicit Session(Bytes bytes) : input_(bytes), messages_(input_, members_), checks_(members_, kMembersMax) {
    peer_ = std::make_unique<gossip::Peer>(options());
    rules_ = rules();
    happens(gossip::Start{});
  }

  void run() {
    for (int step = 0; step < kStepsMax && !input_.empty() && !duties_.over; ++step) act();
    if (!duties_.over) recover();
  }

 private:
  gossip::PeerOptions options();
  gossip::RunRules rules();
  void act();
  void happens(const gossip::Event& event);
  void hears(std::uint64_t from, wire::Message message);
  void answer_for_the_first();
  void waits(Duration pause);
  void drives();
  void exchanges();
  void an_honest_member_speaks();
  void a_hostile_member_speaks();
  void answers_a_ping();
  void hears_raw_bytes();
  void a_user_acts();
  void recover();

  std::uint64_t honest() { return kFirstHonest + input_.below(kLastHonest - kFirstHonest + 1); }
  std::vector<wire::Member> known() const {
    std::vector<wire::Member> known{peer_->view().membership.self()};
    for (const gossip::Record& record : peer_->view().membership.others()) known.push_back(record.member);
    return known;
  }

  Input input_;
  Company members_;
  Messages messages_;
  Duties duties_;
  ViewChecks checks_;
  std::unique_ptr<gossip::Peer> peer_;
  std::optional<gossip::RunRules> rules_;
  Instant now_{1h};
  std::uint64_t steps_ = 0, samples_ = 0;
};

gossip::PeerOptions Session::options() {
  static const std::array<std::string, 5> names{"p1", "p1", "s0", "s1", "s3"};
  gossip::PeerOptions options;
  options.identity = &members_.identity_of(kSelf);
  options.name = input_.one_of(names);
  options.address = home_of(kSelf);
  options.membership.members_max = kMembersMax;
  const std::uint8_t flags = input_.byte();
  if (flags & 1) options.join = {home_of(kFirstHonest), home_of(kFirstHostile)};
  if (flags & 2) options.unwelcomed.begins = 2s;
  if (flags & 4) options.membership.observers = {PeerId{kFirstHostile}};
  if (flags & 8) options.contacts = {home_of(kFirstHonest + 1)};
  if (flags & 16) options.earlier = {100, 3200, 10'000, 60s, {PeerId{kSelf}, 3200}};
  options.manifest.model = "lenet";
  options.manifest.arena_floats = 1000;
  return options;
}

gossip::RunRules Session::rules() {
  static constexpr std::array kChosen{Rule::pairwise,         Rule::clipped, Rule::d_psgd,
                                      Rule::push_sum,         Rule::noloco,  Rule::choco,
                                      Rule::parameter_server, Rule::ssp,     Rule::none};
  static constexpr std::array kPaces{Pace{Pace::Kind::steps, 4, {}}, Pace{Pace::Kind::time, 8, 200ms},
                                     Pace{Pace::Kind::poisson, 8, 200ms}, Pace{Pace::Kind::always, 8, {}}};
  gossip::RunRules rules{*topologies::Topology::parse(input_.one_of(kTopologies)), input_.one_of(kChosen)};
  rules.pace = input_.one_of(kPaces);
  if (gossip::obstacle_to(traits(rules.rule), rules.topology))
    rules.topology = *topologies::Topology::parse("ring");
  const std::uint8_t flags = input_.byte();
  if (flags & 1) rules.end.swarm_samples = 1'000'000;
  if (flags & 2) rules.end.steps = 5000;
  if (flags & 4) rules.end.time = 30min;
  if (flags & 8) rules.shares = Shares::work;
  if (flags & 16) rules.partners = Partners::aware;
  if (flags & 32) rules.servers.shards = 2;
  if (flags & 64) rules.servers.racks = 1;
  return rules;
}

// ---- one step ----

void Session::happens(const gossip::Event& event) {
  if (duties_.over) return;
  gossip::Actions actions;
  peer_->step(now_, event, actions);
  STARLING_CHECK(actions.size() <= most_actions(peer_->view().membership.others().size()));
  for (const gossip::Action& action : actions) {
    STARLING_CHECK(!duties_.over);  // Finish is the last action
    std::visit(ActionChecks(duties_), action);
  }
  STARLING_CHECK(duties_.over == peer_->view().over);
  checks_.check(*peer_, now_);
  STARLING_CHECK(duties_.offers.size() <= peer_->view().membership.others().size());
  STARLING_CHECK(duties_.exchanges.size() <= peer_->view().membership.others().size());
}

void Session::hears(std::uint64_t from, wire::Message message) {
  auto frame = wire::encode_frame(message);
  if (!frame) return;
  auto decoded = wire::decode_message(MutableBytes(*frame).subspan(wire::kFrameHeaderBytes));
  if (!decoded) return;
  checks_.may_know(PeerId{from}, *decoded);
  const Address address = is_honest(from) || input_.byte() < 224 ? home_of(from) : Company::address(input_);
  happens(gossip::Received{PeerId{from}, address, std::move(*decoded)});
  answer_for_the_first();
}

// The first honest member answers all pings at once, and refutes what is said about it.
void Session::answer_for_the_first() {
  const auto is_for_it = [](const auto& sent) {
    return sent.first.to.address == home_of(kFirstHonest) &&
           (sent.first.to.id == PeerId{kFirstHonest} || !sent.first.to.id);
  };
  for (;;) {
    const auto ping = std::ranges::find_if(duties_.pings, is_for_it);
    if (ping == duties_.pings.end() || duties_.over) return;
    const wire::Ping asked = ping->second;
    duties_.pings.erase(ping);
    const wire::Member before = members_.honest(kFirstHonest).self;
    for (const wire::Member& m : asked.members) {
      const bool is_doubted = m.id == before.id && m.liveness != wire::Liveness::alive;
      if (is_doubted && m.incarnation == members_.honest(kFirstHonest).self.incarnation)
        members_.change(kFirstHonest, [](wire::Member& self) { ++self.incarnation; });
    }
    if (asked.target && asked.target != PeerId{kFirstHonest}) continue;
    wire::Message ack = wire::Ack{asked.sequence, {members_.honest(kFirstHonest).self}, {}, {}};
    checks_.may_know(PeerId{kFirstHonest}, ack);
    happens(gossip::Received{PeerId{kFirstHonest}, home_of(kFirstHonest), std::move(ack)});
  }
}

// With a Tick at each deadline, or asleep.
void Session::waits(Duration pause) {
  const Instant until = now_ + pause;
  const int ticks = input_.flag() ? 64 : 0;
  for (int tick = 0; tick < ticks && !duties_.over && peer_->next_deadline() <= until; ++tick) {
    now_ = peer_->next_deadline();
    happens(gossip::Tick{});
    answer_for_the_first();
  }
  now_ = std::max(now_, until);
  happens(gossip::Tick{});
  answer_for_the_first();
}

void Session::act() {
  switch (input_.byte() % 16) {
    case 0:
    case 1:
      return waits(input_.one_of(kPauses));
    case 2:
      return drives();
    case 3:
    case 4:
      return exchanges();
    case 5:
    case 6:
      return an_honest_member_speaks();
    case 7:
    case 8:
      return answers_a_ping();
    case 9:
      return hears_raw_bytes();
    case 10:
      return a_user_acts();
    default:
      return a_hostile_member_speaks();
  }
}

// ---- the driver ----

void Session::drives() {
  switch (input_.byte() % 8) {
    case 0:
    case 1:
      if (!duties_.prepare) return;
      duties_.prepare = false;
      duties_.prepared = true;
      return happens(gossip::Prepared{*rules_, "cpu"});
    case 2:
      if (duties_.fetch) happens(gossip::StateAdvanced{input_.below(256), 256});
      return;
    case 3:
      if (!duties_.fetch) return;
      duties_.fetch = false;
      return happens(gossip::StateArrived{});
    case 4:
      if (!duties_.fetch) return;
      duties_.fetch = false;
      return happens(gossip::StateLost{"it is gone", input_.flag()});
    case 5:
      if (duties_.started && input_.byte() < 32) happens(gossip::ReplicaDiverged{});
      return;
    case 6: {
      const std::uint64_t number = Company::hostile(input_);
      const bool is_named = input_.flag();
      const Address address = is_named ? Company::address(input_) : home_of(number);
      return happens(gossip::Unreachable{address, input_.byte() < 16, "refused", false, PeerId{number}});
    }
    default:
      if (!duties_.trains) return;
      steps_ += 1 + input_.below(16);
      samples_ += input_.below(2048);
      return happens(gossip::Stepped{steps_ + 100, samples_ + 3200});
  }
}

void Session::exchanges() {
  constexpr std::array kOutcomes{gossip::Outcome::completed, gossip::Outcome::aborted,
                                 gossip::Outcome::rejected, gossip::Outcome::poisoned};
  const std::uint8_t kind = input_.byte() % 4;
  if (kind == 0 && !duties_.exchanges.empty()) {
    const std::uint64_t exchange = duties_.exchanges[input_.below(duties_.exchanges.size())];
    std::erase(duties_.exchanges, exchange);
    return happens(gossip::ExchangeEnded{exchange, input_.one_of(kOutcomes), input_.number()});
  }
  if (kind == 1 && !duties_.exchanges.empty())
    return happens(gossip::ExchangeAdvanced{duties_.exchanges.front(), input_.number()});
  if (kind == 2 && !duties_.answers.empty()) {
    const std::size_t index = input_.below(duties_.answers.size());
    const auto [from, exchange] = duties_.answers[index];
    duties_.answers.erase(duties_.answers.begin() + static_cast<std::ptrdiff_t>(index));
    const auto outcome = input_.one_of(kOutcomes);
    return happens(gossip::AnswerEnded{
        from, exchange, outcome == gossip::Outcome::rejected ? gossip::Outcome::completed : outcome});
  }
  if (kind == 3 && !duties_.offers.empty() && input_.byte() < 64) {
    const auto [from, exchange] = *duties_.offers.begin();
    duties_.offers.erase(duties_.offers.begin());
    return happens(gossip::AnswerEnded{from, exchange, gossip::Outcome::aborted});
  }
  const PeerId from{input_.flag() ? honest() : Company::hostile(input_)};
  const std::uint64_t exchange = input_.number();
  duties_.offers.emplace(from, exchange);
  happens(gossip::ExchangeOffered{from, exchange, input_.number()});
}

// ---- others ----

void Session::an_honest_member_speaks() {
  const std::uint64_t number = honest();
  switch (input_.byte() % 16) {
    case 0:
      members_.change(number, [](wire::Member& self) {
        if (self.liveness == wire::Liveness::left) return;
        self.phase =
            std::min(static_cast<wire::Phase>(static_cast<int>(self.phase) + 1), wire::Phase::finished);
      });
      break;
    case 1:
      members_.change(number, [](wire::Member& self) {
        ++self.incarnation;
        self.liveness = wire::Liveness::alive;
      });
      break;
    case 2:
      if (number == kFirstHonest) break;
      members_.change(number, [](wire::Member& self) { self.liveness = wire::Liveness::left; });
      return hears(number, wire::Leave{members_.honest(number).self});
    default:
      members_.honest(number).self.samples += input_.below(4096);
  }
  const wire::Member self = members_.honest(number).self;
  if (self.liveness == wire::Liveness::left) return;
  if (input_.byte() < 16) return hears(number, messages_.welcome({self, members_.honest(kFirstHonest).self}));
  hears(number, wire::Gossip{{self}, input_.flag(), {}, {}});
}

void Session::a_hostile_member_speaks() {
  const std::uint64_t number = Company::hostile(input_);
  hears(number, messages_.hostile(number, known(), *peer_));
}

void Session::answers_a_ping() {
  if (duties_.pings.empty()) return;
  const auto [send, ping] = duties_.pings[input_.below(duties_.pings.size())];
  const std::uint64_t number = send.to.id ? send.to.id.value : Company::hostile(input_);
  if (is_honest(number)) {
    const wire::Member self = members_.honest(number).self;
    if (self.liveness == wire::Liveness::left) return;
    return hears(number, wire::Ack{ping.sequence, {self}, {}, {}});
  }
  wire::Ack ack{ping.sequence, {}, {}, {}};
  if (input_.flag())
    ack.members.push_back(members_.signed_by_itself(Company::named(number, 1, wire::Phase::training)));
  hears(number, std::move(ack));
}

void Session::hears_raw_bytes() {
  const std::uint64_t number = Company::hostile(input_);
  const Bytes bytes = input_.bytes(input_.below(1024));
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  const MutableBytes copy = std::as_writable_bytes(std::span(aligned)).first(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.begin());
  if (auto message = wire::decode_message(copy)) hears(number, std::move(*message));
}

void Session::a_user_acts() {
  switch (input_.byte()) {
    case 0:
      return happens(gossip::EndRequested{});
    case 1:
      return happens(gossip::LeaveRequested{});
    case 2:
      return happens(gossip::ReplicaGone{"the device has failed"});
    case 3:
    case 4:
      return happens(gossip::Introduced{Company::address(input_)});
    case 5:
    case 6:
      return happens(gossip::RewireRequested{input_.one_of(kTopologies)});
    default:
      if (duties_.trains) happens(gossip::VitalsMeasured{});
  }
}

// The hostile members are silent, and the first honest one talks for a minute: it is alive in the view.
void Session::recover() {
  const auto& membership = peer_->view().membership;
  for (int second = 0; second < 60 && !duties_.over; ++second) {
    const gossip::Record* const record = membership.find(PeerId{kFirstHonest});
    if (record != nullptr && !record->is_live() &&
        record->member.incarnation == members_.honest(kFirstHonest).self.incarnation)
      members_.change(kFirstHonest, [](wire::Member& self) { ++self.incarnation; });
    hears(kFirstHonest, wire::Gossip{{members_.honest(kFirstHonest).self}, true, {}, {}});
    waits(1s);
  }
  if (duties_.over) return;
  const gossip::Record* const record = membership.find(PeerId{kFirstHonest});
  const bool is_full = membership.view().members.live() >= kMembersMax;
  STARLING_CHECK(record != nullptr ? record->member.liveness == wire::Liveness::alive : is_full);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Session(std::as_bytes(std::span(data, size))).run();
  return 0;
}
