#include "training/mixing/rules/pairwise.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "tests/training/mixers.h"
#include "tests/training/near.h"

namespace starling::training {
namespace {

// Replicas whose exchanges overlap at random: these lists hold the bytes in flight, and replies are delivered
// in any order.
class World {
 public:
  World(std::uint64_t seed, Payload payload, bool give_up) : random_(seed), give_up_(give_up) {
    const std::size_t floats = 1 + random_.below(60);
    MixOptions options;
    options.payload = payload;
    options.cell_floats = 1 + random_.below(floats);
    const std::size_t n = 2 + random_.below(5);
    for (std::size_t i = 0; i < n; ++i) {
      peers_.push_back(
          std::make_unique<Peer>(random_values(random_, floats, 3), options));  // a mean other than zero
    }
  }

  // Makes one random event and checks the invariants.
  void step() {
    const double energy_before = energy();
    const double size = norm();
    const std::vector<double> mean_before = mean();
    shift_allowed_ = rounding_ = 0;
    switch (random_.below(give_up_ ? 4 : 3)) {
      case 0:
        begin();
        break;
      case 1:
        deliver_request();
        break;
      case 2:
        deliver_reply();
        break;
      default:
        give_up();
    }
    const std::vector<double> mean_after = mean();
    double shift = 0;
    for (std::size_t i = 0; i < mean_after.size(); ++i) shift += square(mean_after[i] - mean_before[i]);
    REQUIRE(std::sqrt(shift) <= shift_allowed_ * (1 + 1e-6) + std::ldexp(size, -22));
    if (shift_allowed_ == 0) {
      const double floats = std::ldexp(size, -22) * std::sqrt(energy_before) + std::ldexp(size * size, -44);
      REQUIRE(energy() <= energy_before + rounding_ * (1 + 1e-4) + floats);
    }
  }

  void finish() {
    while (!requests_.empty() || !replies_.empty()) {
      if (random_.chance(0.5)) {
        deliver_request();
      } else {
        deliver_reply();
      }
    }
  }

  // Sums over the parts; with nothing in flight, over the peers.
  std::vector<double> mean() const {
    std::vector<double> sums(floats(), 0.0);
    each_part([&](std::size_t i, double mass, double value) { sums[i] += mass * value; });
    for (auto& x : sums) x /= static_cast<double>(peers_.size());
    return sums;
  }

  // Energy of the parts: an idle peer is (1, x); a peer in flight is (1/2, 2x - a) and (1/2, a), and once
  // answered its second part is (w, b) and (1/2 - w, a).
  double energy() const {
    const std::vector<double> center = mean();
    double sum = 0;
    each_part([&](std::size_t i, double mass, double value) { sum += mass * square(value - center[i]); });
    return sum;
  }

  double norm() const {
    double squares = 0;
    for (const auto& peer : peers_) {
      for (const float x : contents(peer->party.arena)) squares += square(wide(x));
    }
    return std::sqrt(squares);
  }

  int overlapped() const { return overlapped_; }

 private:
  struct Loan {
    Session session;
    Cells cells;
    Packet sent;
    std::vector<float> a;
    bool answered = false;
    std::vector<float> b{};  // of the answer, which may still be in flight
    float w = 0;
  };
  struct Peer {
    Peer(std::span<const float> values, const MixOptions& options) : party(values, options) {}
    Party party;
    std::vector<Loan> loans;
    Loan* find(std::uint64_t exchange) {
      for (auto& loan : loans) {
        if (loan.session.exchange == exchange) return &loan;
      }
      return nullptr;
    }
    bool lent(std::size_t cell) const {
      return std::any_of(loans.begin(), loans.end(), [cell](const Loan& loan) {
        return cell >= loan.cells.first && cell < loan.cells.first + loan.cells.count;
      });
    }
    void forget(const Loan* loan) { loans.erase(loans.begin() + (loan - loans.data())); }
  };
  struct Request {
    Session session;
    std::size_t from, to;
    Parcel offer;  // its values are copied: the initiator may abort
    Room room;
    std::vector<float> a;
  };
  struct Reply {
    Session session;
    std::size_t to;
    Packet packet;
  };

  std::size_t floats() const { return peers_.front()->party.arena.size(); }

  template <class Visit>
  void each_part(Visit visit) const {
    for (const auto& peer : peers_) {
      const auto x = contents(peer->party.arena);
      std::vector<bool> lent(x.size());
      for (const Loan& loan : peer->loans) {
        for (std::size_t i = 0; i < loan.a.size(); ++i) {
          const std::size_t at = loan.sent.parcel.offset + i;
          const double w = loan.answered ? wide(loan.w) : 0;
          lent[at] = true;
          visit(at, 0.5, 2 * wide(x[at]) - wide(loan.a[i]));
          if (loan.answered) visit(at, w, wide(loan.b[i]));
          visit(at, 0.5 - w, wide(loan.a[i]));
        }
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!lent[i]) visit(i, 1, wide(x[i]));
      }
    }
  }

  void begin() {
    const std::size_t from = random_.below(peers_.size());
    std::size_t to = random_.below(peers_.size() - 1);
    if (to >= from) ++to;
    Peer& peer = *peers_[from];
    const CellGrid& grid = peer.party.mixer->grid();
    Cells cells{random_.below(grid.count()), 1};
    if (peer.lent(cells.first)) return;
    while (random_.chance(0.5) && cells.first + cells.count < grid.count() &&
           !peer.lent(cells.first + cells.count)) {
      ++cells.count;
    }
    const Session session = session_of(++exchanges_, from, to);
    auto sent = peer.party.lend(session, cells);
    REQUIRE(sent.ok());
    REQUIRE(sent->parcel.offset == grid.offset(cells.first));
    auto a = decoded(sent->parcel);
    const auto x = contents(peer.party.arena);
    for (std::size_t i = 0; i < a.size(); ++i)
      rounding_ += square(wide(x[sent->parcel.offset + i]) - wide(a[i]));
    Room copy = copy_of(sent->parcel.values);
    Parcel offer = sent->parcel;
    offer.values = copy.bytes();
    requests_.push_back({session, from, to, offer, std::move(copy), a});
    peer.loans.push_back({session, cells, *std::move(sent), std::move(a)});
  }

  template <class T>
  T take(std::vector<T>& list) {
    std::swap(list[random_.below(list.size())], list.back());
    T taken = std::move(list.back());
    list.pop_back();
    return taken;
  }

  void deliver_request() {
    if (requests_.empty()) return;
    const Request request = take(requests_);
    Peer& responder = *peers_[request.to];
    Reply reply{request.session, request.from, {}};
    std::vector<float> b;
    if (random_.chance(0.1)) {  // rejected for lack of resources
      reply.packet.parcel = request.offer;
      reply.packet.parcel.payload = Payload::none;
      reply.packet.parcel.values = {};
    } else {
      auto free = contents(responder.party.arena);  // the half that the responder is free to give
      bool lent = false;
      for (const Loan& loan : responder.loans) {
        for (std::size_t i = 0; i < loan.a.size(); ++i) {
          const std::size_t at = loan.sent.parcel.offset + i;
          free[at] = 2 * free[at] - loan.a[i];
          lent = lent || (at >= request.offer.offset && at < request.offer.offset + request.offer.floats);
        }
      }
      auto answer = responder.party.answer(seen_by_responder(request.session), request.offer);
      REQUIRE(answer.ok());
      REQUIRE(answer->parcel.weight == (lent ? 0.25f : 0.5f));
      overlapped_ += lent;
      b = decoded(answer->parcel);
      for (std::size_t i = 0; i < b.size(); ++i) {
        rounding_ += square(wide(free[request.offer.offset + i]) - wide(b[i]));
      }
      reply.packet = *std::move(answer);
    }
    const float w = b.empty() ? 0 : reply.packet.parcel.weight;
    if (Loan* loan = peers_[request.from]->find(request.session.exchange)) {
      loan->answered = !b.empty();
      loan->b = b;
      loan->w = w;
    } else if (w != 0) {
      shift_allowed_ = shift(w, request.a, b);  // half applied: the initiator has already aborted
    }
    replies_.push_back(std::move(reply));
  }

  void deliver_reply() {
    if (replies_.empty()) return;
    const Reply reply = take(replies_);
    Peer& peer = *peers_[reply.to];
    Loan* loan = peer.find(reply.session.exchange);
    if (loan == nullptr) return;  // aborted: a late reply is dropped
    const auto mixed = peer.party.mixer->complete(reply.session, loan->sent.parcel, reply.packet.parcel);
    REQUIRE(mixed.ok());
    double distance = 0;
    for (std::size_t i = 0; i < loan->b.size(); ++i) distance += square(wide(loan->b[i]) - wide(loan->a[i]));
    REQUIRE(near(mixed->distance_square, distance, 1e-9, 1e-5));
    peer.forget(loan);
  }

  void give_up() {
    Peer& peer = *peers_[random_.below(peers_.size())];
    if (peer.loans.empty()) return;
    Loan& loan = peer.loans[random_.below(peer.loans.size())];
    if (loan.answered) shift_allowed_ = shift(loan.w, loan.a, loan.b);
    peer.party.mixer->give_up(loan.session, loan.sent.parcel);
    peer.forget(&loan);
    if (shift_allowed_ == 0) shift_allowed_ = 1e-30;  // the parts and the whole have equal energy again
  }

  // w |a - b| / n: the most that a half-applied chunk may change the mean.
  double shift(float w, const std::vector<float>& a, const std::vector<float>& b) const {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += square(wide(a[i]) - wide(b[i]));
    return wide(w) * std::sqrt(squares) / static_cast<double>(peers_.size());
  }

  Random random_;
  bool give_up_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Request> requests_;
  std::vector<Reply> replies_;
  std::uint64_t exchanges_ = 0;
  int overlapped_ = 0;
  double shift_allowed_ = 0;
  double rounding_ = 0;  // sum of squared encoding errors of the event: the energy may rise by this much
};

}  // namespace

TEST_CASE("overlapping exchanges conserve the sum, and the energy rises only by rounding") {
  for (const Payload payload : kDense) {
    int overlapped = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      INFO("seed " << seed << ", payload " << static_cast<int>(payload));
      World world(seed, payload, false);
      const auto mean = world.mean();
      for (int i = 0; i < 80; ++i) world.step();
      world.finish();
      const auto after = world.mean();
      for (std::size_t i = 0; i < mean.size(); ++i) REQUIRE(near(after[i], mean[i], 1e-4));
      overlapped += world.overlapped();
    }
    REQUIRE(overlapped > 500);  // overlaps did happen
  }
}

TEST_CASE("an abort shifts the mean by at most w|a - b|/n and has no other effect") {
  for (const Payload payload : kDense) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      INFO("seed " << seed << ", payload " << static_cast<int>(payload));
      World world(seed, payload, true);
      for (int i = 0; i < 80; ++i) world.step();
      world.finish();
    }
  }
}

}  // namespace starling::training
