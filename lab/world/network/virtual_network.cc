#include "lab/world/network/virtual_network.h"

#include <utility>

#include "base/check.h"
#include "wire/loss.h"

namespace starling::lab {

namespace {

constexpr double kTailOverhang = 1;  // seconds after tail_until until the last packet has arrived

std::uint64_t key_of(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

}  // namespace

bool VirtualNetwork::are_linked(std::uint32_t a, std::uint32_t b) const {
  const auto found = connections_.find(key_of(std::min(a, b), std::max(a, b)));
  return found != connections_.end() && found->second.stands_for(a);
}

Connection& VirtualNetwork::connection(std::uint32_t dialer, std::uint32_t acceptor, wire::Purpose purpose) {
  STARLING_CHECK(dialer != acceptor);
  // The highest bit is the purpose: there are far fewer than 2^31 machines.
  const std::uint64_t key =
      key_of(dialer, acceptor) | (purpose == wire::Purpose::bulk ? std::uint64_t{1} << 63 : 0);
  const auto [found, fresh] = connections_.try_emplace(key);
  Connection& c = found->second;
  if (fresh) {
    c.dialer = dialer;
    c.acceptor = acceptor;
    c.purpose = purpose;
    const auto most = std::max<std::size_t>(of_machine_.size(), std::max(dialer, acceptor) + std::size_t{1});
    of_machine_.resize(most);
    if (options_.port) ports_.resize(most);
    of_machine_[dialer].push_back(&c);
    of_machine_[acceptor].push_back(&c);
  }
  return c;
}

// ---- sending ----

void VirtualNetwork::send(Connection& c, std::uint32_t from, PacketPtr packet) {
  if (c.closed_by == from) replace_closed(c, from);
  Way& way = c.way_from(from);
  if (way.deaf) return into_hole(c, from);
  if (Way& back = c.way_from(c.other(from)); back.deaf) {  // the end that knows dials again
    back.deaf = false;
    ++c.epoch;
  }
  const bool clear = way.waiting.empty() && !way.stalled && way.travelling < options_.travelling_max;
  if (clear && way.free_at <= queue_.now()) {
    transmit(c, from, std::move(packet));
    return;
  }
  if (way.waiting.size() >= options_.waiting_max) {
    way.waiting.erase(way.waiting.begin());
    ++dropped_;
  }
  way.waiting.push_back(std::move(packet));
  longest_queue_ = std::max(longest_queue_, way.length());
  pump(c, from);
}

void VirtualNetwork::close(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr last) {
  if (Way& way = c.way_from(from); way.deaf) {
    way.deaf = false;
    ++c.epoch;
  } else if (c.epoch == epoch) {
    send(c, from, std::move(last));
    if (c.epoch == epoch) c.closed_by = from;
  }
}

// The program at this end uses a new connection instead of the one that it closed. What the other end had
// under way is lost; it learns of the end when the last packet would have arrived.
void VirtualNetwork::replace_closed(Connection& c, std::uint32_t from) {
  const Instant last = std::max(c.way_from(from).last_arrival, queue_.now() + options_.latency);
  sever(c, from, std::nullopt, last - queue_.now());
}

// The other end is gone; the sender notices it when its first write takes too long.
void VirtualNetwork::into_hole(Connection& c, std::uint32_t from) {
  Way& way = c.way_from(from);
  if (way.hole_written) return;
  way.hole_written = true;
  queue_.schedule(queue_.now() + options_.write_limit, [this, &c, from, hole = way.holes] {
    Way& it = c.way_from(from);
    if (!it.deaf || it.holes != hole) return;
    it.deaf = false;
    const std::uint32_t epoch = c.epoch++;
    host_.broken(c, from, epoch, true);
  });
}

void VirtualNetwork::pump(Connection& c, std::uint32_t from) {
  Way& way = c.way_from(from);
  while (!way.waiting.empty() && !way.stalled && way.travelling < options_.travelling_max) {
    if (way.free_at > queue_.now()) {
      if (way.armed) return;
      way.armed = true;
      queue_.schedule(way.free_at, [this, &c, from] {
        c.way_from(from).armed = false;
        pump(c, from);
      });
      return;
    }
    PacketPtr packet = std::move(way.waiting.front());
    way.waiting.erase(way.waiting.begin());
    transmit(c, from, std::move(packet));
  }
}

void VirtualNetwork::transmit(Connection& c, std::uint32_t from, PacketPtr packet) {
  const std::uint32_t to = c.other(from);
  const Instant now = queue_.now();
  Way& way = c.way_from(from);
  const NetworkHost::Reach reach = host_.reach(to);
  if (reach == NetworkHost::Reach::refuses) {
    way.waiting.push_back(std::move(packet));  // undelivered
    sever(c, from, 2 * options_.latency, std::nullopt);
    return;
  }
  const bool is_lost = reach == NetworkHost::Reach::silent || (!c.stands && is_dial_lost(c, from));
  Instant clear = is_lost ? kNever : clear_of_cuts(c, from);
  if (!c.stands && clear != kNever)
    clear = std::max({clear, conditions_.clear_of_cuts(now, to, from), host_.awake(to)});
  if (clear > now) return stall(c, from, std::move(packet), clear);
  const NetworkConditions::OfPacket found = of(c, from);
  // The port forwards a chunk bit by bit, so the slower of port and link determines when its last bit leaves.
  // Waiting for other connections of the same port does not count as a stalled write.
  const Duration in_port = port_time(*packet);
  const Instant begins = in_port.count() > 0 ? std::max(now, ports_[from].out_free) : now;
  const double bandwidth = in_port.count() > 0 ? std::min(found.bandwidth, *options_.port) : found.bandwidth;
  const Instant departure = sent_by(c, from, begins, packet->bytes, bandwidth);
  const Duration resent = resent_after(found.drop, found.latency, options_.write_limit, random_);
  if (departure - begins + resent > options_.write_limit) return stall(c, from, std::move(packet), kNever);

  Duration time = resent + travel(found.latency);
  if (!c.stands) {
    time += 4 * found.latency;  // a round trip for TCP, one for the Hellos
    established(c);
  }
  way.free_at = departure;
  way.last_arrival = std::max(way.last_arrival, departure + time);
  ++way.travelling;
  longest_queue_ = std::max(longest_queue_, way.length());
  if (options_.port && c.purpose == wire::Purpose::bulk) {
    if (in_port.count() > 0) ports_[from].out_free = begins + in_port;
    // Handshake, resending and jitter delay the delivery, but do not occupy the port.
    way.last_reach = std::max(way.last_reach, begins + found.latency);
    queue_.schedule(way.last_reach,
                    [this, &c, epoch = c.epoch, from, last = way.last_arrival,
                     p = std::move(packet)]() mutable { enter_port(c, epoch, from, std::move(p), last); });
    return;
  }
  arrive_at(way.last_arrival, c, c.epoch, from, std::move(packet));
}

void VirtualNetwork::arrive_at(Instant at, Connection& c, std::uint32_t epoch, std::uint32_t from,
                               PacketPtr packet) {
  queue_.schedule(
      at, [this, &c, epoch, from, p = std::move(packet)]() mutable { arrive(c, epoch, from, std::move(p)); });
}

// How long a packet occupies a port: zero without ports, and for packets other than chunks.
Duration VirtualNetwork::port_time(const Packet& packet) const {
  const bool chunk = packet.kind == Packet::Kind::offer_chunk || packet.kind == Packet::Kind::reply_chunk ||
                     packet.kind == Packet::Kind::state_chunk;
  if (!options_.port || !chunk) return Duration{0};
  return from_seconds(static_cast<double>(packet.bytes) * 8 / *options_.port);
}

// The first bit of a packet has reached the receiver's port. The packet has passed the port after
// port_time(), but not before its last bit has arrived, and not before the packets ahead of it.
void VirtualNetwork::enter_port(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet,
                                Instant last_bit) {
  if (c.epoch != epoch) return;  // lost in transit
  Way& way = c.way_from(from);
  way.last_through = std::max(way.last_through, last_bit);
  if (const Duration in_port = port_time(*packet); in_port.count() > 0) {
    Port& port = ports_[c.other(from)];
    port.in_free = std::max(port.in_free, queue_.now()) + in_port;
    way.last_through = std::max(way.last_through, port.in_free);
  }
  way.last_arrival = std::max(way.last_arrival, way.last_through);
  arrive_at(way.last_through, c, epoch, from, std::move(packet));
}

// The way is blocked until `clear`. If that is longer than the limits allow, the connection breaks.
void VirtualNetwork::stall(Connection& c, std::uint32_t from, PacketPtr packet, Instant clear) {
  Way& way = c.way_from(from);
  way.waiting.insert(way.waiting.begin(), std::move(packet));
  way.stalled = true;
  way.lost = !c.stands && clear == kNever;
  const std::uint32_t stall = ++way.stalls;
  const Instant now = queue_.now();
  const bool waits = way.opening == Opening::wait;
  const Duration limit = c.stands ? options_.write_limit
                         : waits  ? options_.call_limit()
                                  : options_.dial_limit;
  const bool in_time = clear != kNever && clear - now <= limit;
  if (in_time) {
    // TCP retries at doubling intervals, so it notices the end of the cut with a delay.
    const Duration late = from_seconds(random_.uniform(0, std::min(1.0, to_seconds(clear - now) / 2)));
    queue_.schedule(clear + late, [this, &c, epoch = c.epoch, from, stall] {
      if (c.epoch != epoch || c.way_from(from).stalls != stall) return;
      c.way_from(from).stalled = false;
      pump(c, from);
    });
    return;
  }
  queue_.schedule(now + limit, [this, &c, epoch = c.epoch, from, stall] {
    if (c.epoch != epoch || c.way_from(from).stalls != stall) return;
    const Duration at_once{0};
    const bool bulk = c.purpose == wire::Purpose::bulk;
    sever(c, from, at_once, bulk ? options_.stall_limit - options_.write_limit : at_once);
  });
}

void VirtualNetwork::arrive(Connection& c, std::uint32_t epoch, std::uint32_t from, PacketPtr packet) {
  if (c.epoch != epoch) return;  // lost; the ends were notified when the connection broke
  const std::uint32_t to = c.other(from);
  Way& way = c.way_from(from);
  if (host_.reach(to) != NetworkHost::Reach::up) {
    --way.travelling;
    tell(c, from, epoch, true, queue_.now() + options_.latency);
    return;
  }
  if (const Instant awake = host_.awake(to); awake > queue_.now()) {
    arrive_at(awake, c, epoch, from, std::move(packet));
    return;
  }
  --way.travelling;
  host_.arrived(c, from, to, *packet);
  if (c.epoch == epoch && !way.waiting.empty()) pump(c, from);
}

NetworkConditions::OfPacket VirtualNetwork::of(const Connection& c, std::uint32_t from) const {
  const Instant now = queue_.now();
  if (!c.via) return conditions_.of(now, from, c.other(from));
  const NetworkConditions::OfPacket first = conditions_.of(now, from, *c.via),
                                    second = conditions_.of(now, *c.via, c.other(from));
  return {first.latency + second.latency, std::min(first.bandwidth, second.bandwidth),
          1 - (1 - first.drop) * (1 - second.drop)};
}

Duration VirtualNetwork::travel(Duration latency) {
  double seconds = to_seconds(latency);
  if (options_.latency_jitter.count() > 0)
    seconds += random_.exponential() * to_seconds(options_.latency_jitter);
  if (options_.tail_chance > 0 && queue_.now() < options_.tail_until &&
      random_.chance(options_.tail_chance)) {
    seconds *= options_.tail_factor;
    if (options_.tail_until != kNever)
      seconds = std::min(seconds, to_seconds(options_.tail_until - queue_.now()) + kTailOverhang);
  }
  return from_seconds(seconds);
}

// The same on this connection. Waiting for the other circuits of a relay is part of the time.
Instant VirtualNetwork::sent_by(const Connection& c, std::uint32_t from, Instant at, std::size_t bytes,
                                double bandwidth) {
  const std::uint32_t to = c.other(from);
  if (!c.via) return conditions_.sent_by(from, to, at, bytes, bandwidth);
  return std::max({circuits_.passed(*c.via, at, bytes),
                   conditions_.sent_by(from, *c.via, at, bytes, bandwidth),
                   conditions_.sent_by(*c.via, to, at, bytes, bandwidth)});
}

// ---- opening ----

bool VirtualNetwork::is_dial_lost(Connection& c, std::uint32_t from) const {
  return c.way_from(from).opening != Opening::dial || conditions_.is_hidden(c.other(from)) ||
         conditions_.are_dials_blocked(queue_.now(), from);
}

// The connection stands now: what waited for that at either end is sent.
void VirtualNetwork::established(Connection& c) {
  c.stands = true;
  c.call = 0;
  for (const std::uint32_t end : {c.dialer, c.acceptor}) {
    Way& way = c.way_from(end);
    way.opening = Opening::dial;
    if (!std::exchange(way.lost, false)) continue;
    way.stalled = false;
    ++way.stalls;
    pump(c, end);
  }
}

void VirtualNetwork::set_opening(Connection& c, std::uint32_t from, Opening opening) {
  if (c.closed_by == from && opening != Opening::dial) replace_closed(c, from);
  Way& way = c.way_from(from);
  if (!c.stands && !way.stalled) way.opening = opening;
}

bool VirtualNetwork::await(Connection& c, std::uint32_t from, std::uint64_t number) {
  set_opening(c, from, Opening::wait);
  const Way& way = c.way_from(from);
  if (c.stands || way.deaf || way.stalled) return false;
  c.call = number;
  return true;
}

bool VirtualNetwork::open(Connection& c, std::uint64_t number, std::optional<std::uint32_t> via) {
  if (!c.awaits(number)) return false;
  if (via) {
    c.via = via;
    circuits_.add(*via, c);
  }
  established(c);
  return true;
}

void VirtualNetwork::refuse(Connection& c, std::uint64_t number) {
  if (c.awaits(number)) sever(c, c.dialer, Duration{0}, std::nullopt);
}

void VirtualNetwork::hang_up(Connection& c, std::uint32_t from) {
  if (c.stands && c.via) sever(c, from, std::nullopt, 2 * options_.latency);
}

std::optional<Duration> VirtualNetwork::dial_time(std::uint32_t from, std::uint32_t to) const {
  const Instant now = queue_.now();
  if (conditions_.is_hidden(to) || conditions_.are_dials_blocked(queue_.now(), from) ||
      host_.reach(to) != NetworkHost::Reach::up)
    return std::nullopt;
  const Instant clear = std::max(
      {conditions_.clear_of_cuts(now, from, to), conditions_.clear_of_cuts(now, to, from), host_.awake(to)});
  if (clear == kNever || clear - now > options_.dial_limit) return std::nullopt;
  return clear - now + 4 * options_.latency;
}

// Breaks the circuits over this relay, or only one end's.
void VirtualNetwork::end_circuits(std::uint32_t relay, std::optional<std::uint32_t> end,
                                  Duration both_learn) {
  for (Connection* c : circuits_.over(relay))
    if (!end || c->dialer == *end || c->acceptor == *end) sever(*c, c->dialer, both_learn, both_learn);
}

// ---- faults ----

Instant VirtualNetwork::clear_of_cuts(const Connection& c, std::uint32_t from) const {
  const Instant now = queue_.now();
  if (!c.via) return conditions_.clear_of_cuts(now, from, c.other(from));
  return std::max(conditions_.clear_of_cuts(now, from, *c.via),
                  conditions_.clear_of_cuts(now, *c.via, c.other(from)));
}

void VirtualNetwork::reset(std::uint32_t a, std::uint32_t b) {
  for (Connection* c : all_between(a, b)) reset(*c);
  end_circuits(a, b, 2 * options_.latency);
  end_circuits(b, a, 2 * options_.latency);
}

void VirtualNetwork::reset(Connection& c) {
  if (c.stands) sever(c, c.dialer, options_.latency, options_.latency);
}

void VirtualNetwork::half_open(std::uint32_t knows, std::uint32_t deaf) {
  for (Connection* c : all_between(knows, deaf)) {
    if (!c->stands) continue;
    const std::uint32_t epoch = c->epoch;
    const bool undelivered = c->way_from(deaf).length() > 0;
    sever(*c, knows, options_.latency, std::nullopt);
    go_deaf(*c, deaf, epoch, undelivered);
  }
  end_circuits(knows, deaf, options_.stall_limit);
  end_circuits(deaf, knows, options_.stall_limit);
}

// This end does not know that the connection, which had this epoch, is gone.
void VirtualNetwork::go_deaf(Connection& c, std::uint32_t end, std::uint32_t epoch, bool undelivered) {
  Way& way = c.way_from(end);
  way.deaf = true;
  way.hole_written = false;
  ++way.holes;
  if (undelivered) into_hole(c, end);
  if (c.purpose == wire::Purpose::bulk) tell(c, end, epoch, true, queue_.now() + options_.stall_limit);
}

void VirtualNetwork::move(std::uint32_t machine) {
  end_circuits(machine, std::nullopt, options_.stall_limit);
  if (machine >= of_machine_.size()) return;
  for (Connection* c : of_machine_[machine]) {
    const std::uint32_t epoch = c->epoch;
    if (Way& dial = c->way_from(c->other(machine)); !c->stands) {
      if (dial.stalled && dial.opening == Opening::dial) dial.opening = Opening::lost_dial;
      continue;
    }
    const std::array<bool, 2> undelivered{c->ways[0].length() > 0, c->ways[1].length() > 0};
    sever(*c, machine, std::nullopt, std::nullopt);
    go_deaf(*c, c->dialer, epoch, undelivered[0]);
    go_deaf(*c, c->acceptor, epoch, undelivered[1]);
  }
}

void VirtualNetwork::down(std::uint32_t machine, Ending ending) {
  end_circuits(machine, std::nullopt, ending == Ending::power_loss ? options_.stall_limit : options_.latency);
  if (machine >= of_machine_.size()) return;
  for (Connection* c : of_machine_[machine]) {
    if (ending == Ending::orderly) {
      end_in_order(*c, c->epoch, machine);
      continue;
    }
    Duration learns = options_.latency;
    if (ending == Ending::power_loss)
      learns = c->purpose == wire::Purpose::bulk ? options_.stall_limit : options_.write_limit;
    sever(*c, machine, std::nullopt, learns);
  }
}

// A machine closes a connection when all its packets have arrived: a packet may have to wait for the other
// machine's port.
void VirtualNetwork::end_in_order(Connection& c, std::uint32_t epoch, std::uint32_t machine) {
  const Instant last = std::max(queue_.now(), c.way_from(machine).last_arrival);
  queue_.schedule(last + options_.latency, [this, &c, epoch, machine, last] {
    if (c.epoch != epoch) return;
    if (c.way_from(machine).last_arrival > last) return end_in_order(c, epoch, machine);
    sever(c, machine, std::nullopt, Duration{0});
  });
}

void VirtualNetwork::up_again(std::uint32_t machine) {
  if (machine >= of_machine_.size()) return;
  if (options_.port) ports_[machine] = {};  // drops what its former instance left there
  for (Connection* c : of_machine_[machine]) sever(*c, machine, std::nullopt, options_.latency);
}

void VirtualNetwork::sever(Connection& c, std::uint32_t end, std::optional<Duration> end_learns,
                           std::optional<Duration> other_learns) {
  const std::uint32_t epoch = c.epoch++;
  if (c.stands) ++broken_;
  c.stands = false;
  c.call = 0;
  c.closed_by.reset();
  if (c.via) circuits_.remove(*c.via, c);
  c.via.reset();
  for (const std::uint32_t it : {c.dialer, c.acceptor}) {
    Way& way = c.way_from(it);
    const bool undelivered = way.length() > 0;
    way.travelling = 0;
    way.stalled = way.deaf = way.lost = false;
    way.opening = Opening::dial;
    way.waiting.clear();
    way.free_at = way.last_arrival = way.last_reach = way.last_through = queue_.now();
    const auto learns = it == end ? end_learns : other_learns;
    if (learns) tell(c, it, epoch, undelivered, queue_.now() + *learns);
  }
}

void VirtualNetwork::tell(Connection& c, std::uint32_t end, std::uint32_t epoch, bool undelivered,
                          Instant at) {
  if (c.purpose == wire::Purpose::control && !undelivered) return;  // an idle link is not missed
  queue_.schedule(at, [this, &c, end, epoch, undelivered] { host_.broken(c, end, epoch, undelivered); });
}

}  // namespace starling::lab
