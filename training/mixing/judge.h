// Whether a chunk from outside may touch this replica. Each of its cells is compared with own values, and the
// chunk is judged as a whole before its first float is mixed. A chunk is rejected if it holds a value that is
// not acceptable, or if it is farther off than any honest partner would be: once kFarOffSeen distances of
// each of its cells are known, more than the root of the cells' sum of max(4 |own| at its largest, 16
// medians)^2, times the leniency. |own| counts as it was when the replica was good (Mixer::trust), so that
// mixing what is wrong does not raise the bound.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/mixing/mixer.h"
#include "training/mixing/values.h"

namespace starling::training {

// The rejections that several rules have, one sentence each.
MixError not_lent(std::size_t offset);
MixError own_diverged(std::size_t offset);
// For values that are not all_acceptable().
MixError unacceptable(std::size_t offset, std::span<const float> theirs);
MixError wrong_payload(const Parcel& parcel);
MixError other_chunk(const Parcel& sent, const Parcel& reply);
// For a reply's weight that the rule does not have.
MixError unknown_weight(std::size_t offset, float weight);

// How far partners usually are: every cell's latest distance of each of the last few partners, and the median
// of these, which a minority of liars does not move, however often they come. The leniency keeps a replica
// that was cut off for long from rejecting everyone, and being rejected, forever: while most of these
// partners were rejected when they came last, each rejection of one of them doubles what is tolerated, up to
// kLeniencyMost; each mix of a whole replica halves it again. A partner that has gone, or is no neighbor any
// more, does not count: one that has not come during kAbsent times as many exchanges as there are partners.
// Only exchanges that this replica began count for that, so that no partner can make others absent.
class Medians {
 public:
  static constexpr std::size_t kPartners = 15;
  static constexpr std::uint64_t kAbsent = 4;

  explicit Medians(std::size_t cells) : cells_(cells) {}

  void add(std::size_t cell, const Session& session, double distance) {
    Cell& c = cells_[cell];
    const std::size_t place = place_of(session.partner);
    c.latest[place] = static_cast<float>(distance);
    refused_[place] = false;
    ++c.seen;
    if (cell + 1 < cells_.size()) return;
    leniency_ = std::max(1.0, leniency_ / 2);
    came(partners_[place], session);
  }
  std::uint64_t seen(std::size_t cell) const { return cells_[cell].seen; }
  // The median over the partners; of an even number the lower middle, of none 0.
  double median(std::size_t cell) const {
    auto sorted = cells_[cell].latest;
    const auto end = std::remove(sorted.begin(), sorted.end(), kNone);
    if (end == sorted.begin()) return 0;
    const auto middle = sorted.begin() + (end - sorted.begin() - 1) / 2;
    std::nth_element(sorted.begin(), middle, end);
    return static_cast<double>(*middle);
  }
  // `square`: the current square of this replica's own norm in the cell. Returns the largest so far, so that
  // a replica that has shrunk to almost zero does not reject every honest partner.
  double largest_norm_square(std::size_t cell, double square) {
    Cell& c = cells_[cell];
    c.norm_square = square;
    // The norm of a good replica may double until the next judgement.
    const double most = trusts_ && c.trusted_square > 0 ? 4 * c.trusted_square : square;
    c.largest_norm_square = std::max(c.largest_norm_square, std::min(square, most));
    return c.largest_norm_square;
  }
  // The replica is good: from now on its norms at such moments, and twice as much, are the limit of what
  // counts.
  void trust() {
    trusts_ = true;
    for (Cell& c : cells_) {
      c.trusted_square = std::max(c.trusted_square, c.norm_square);
      c.largest_norm_square = std::max(c.largest_norm_square, c.trusted_square);
    }
  }
  // As Mixer::values().
  void values(std::vector<MutableBytes>& out) {
    out.push_back(std::as_writable_bytes(std::span(cells_)));
    out.push_back(std::as_writable_bytes(std::span(&leniency_, 1)));
    out.push_back(std::as_writable_bytes(std::span(refused_)));
  }
  void clear() {
    std::fill(cells_.begin(), cells_.end(), Cell{});
    partners_ = {};
    refused_ = {};
    leniency_ = 1;
  }

  // The factor by which a distance may exceed the usual bound.
  double leniency() const { return leniency_; }
  static constexpr double kLeniencyMost = 1024;
  // A chunk of this partner was too far off. One that has not been mixed before does not count.
  void refused(const Session& session) {
    const auto found = known(session.partner);
    if (found == partners_.end()) return;
    refused_[static_cast<std::size_t>(found - partners_.begin())] = true;
    came(*found, session);
    const std::uint64_t all =
        std::count_if(partners_.begin(), partners_.end(), [](const Partner& p) { return p.last != 0; });
    std::size_t present = 0, refused = 0;
    for (std::size_t place = 0; place < kPartners; ++place) {
      if (partners_[place].last == 0 || exchanges_ - partners_[place].came >= kAbsent * all) continue;
      ++present;
      refused += refused_[place];
    }
    if (2 * refused > present) leniency_ = std::min(2 * leniency_, kLeniencyMost);
  }

 private:
  static constexpr float kNone = -1;
  struct Cell {
    Cell() { latest.fill(kNone); }
    std::array<float, kPartners> latest;
    std::uint64_t seen = 0;
    double norm_square = 0;     // the latest
    double trusted_square = 0;  // the largest when the replica was good
    double largest_norm_square = 0;
  };
  struct Partner {
    std::uint64_t id = 0, last = 0;  // last: when it came, as a count of additions; 0: a free place
    std::uint64_t came = 0;          // the same as a count of exchanges
  };

  void came(Partner& partner, const Session& session) {
    exchanges_ += session.initiator != session.partner;
    partner.came = exchanges_;
  }

  std::array<Partner, kPartners>::iterator known(std::uint64_t partner) {
    return std::find_if(partners_.begin(), partners_.end(),
                        [partner](const Partner& p) { return p.id == partner && p.last != 0; });
  }
  // The partner's place in Cell::latest. A new partner gets the place of the one that has not come for the
  // longest, and counts with that one's distances until it has its own.
  std::size_t place_of(std::uint64_t partner) {
    auto found = known(partner);
    if (found == partners_.end()) {
      found = std::min_element(partners_.begin(), partners_.end(),
                               [](const Partner& a, const Partner& b) { return a.last < b.last; });
    }
    *found = {partner, ++additions_, exchanges_};
    return static_cast<std::size_t>(found - partners_.begin());
  }

  std::vector<Cell> cells_;
  std::array<Partner, kPartners> partners_{};
  std::array<bool, kPartners> refused_{};        // by place: the latest chunk was too far off
  std::uint64_t additions_ = 0, exchanges_ = 0;  // exchanges_: that this replica began
  double leniency_ = 1;
  bool trusts_ = false;
};

class Judge {
 public:
  // `wary`: also rejects chunks that are far off.
  Judge(const CellGrid& grid, bool wary) : grid_(grid), wary_(wary), medians_(grid.count()) {}

  static constexpr std::uint64_t kFarOffSeen = 8;

  // Begins a chunk of these cells. add() takes one cell after the other: equally many values of theirs and of
  // own, all or some of the cell's. REQUIRES: own are acceptable.
  void begin(Cells cells);
  void add(std::span<const float> theirs, std::span<const float> own);
  // The verdict on what was added; `theirs` is the whole chunk.
  MixResult<Mixed> verdict(const Session& session, std::span<const float> theirs);

  // The three together, for dense chunks. REQUIRES: both have the cells' floats.
  MixResult<Mixed> judge(const Session& session, Cells cells, std::span<const float> theirs,
                         std::span<const float> own);

  // The measure of the chunk's k-th cell.
  const Measure& measure(std::size_t k) const { return measures_[k]; }
  // The chunk has been mixed: adds its distances to the medians.
  void remember(const Session& session);
  // The replica was replaced.
  void clear() { medians_.clear(); }
  void trust() { medians_.trust(); }  // as Mixer::trust()

  void values(std::vector<MutableBytes>& out) { medians_.values(out); }  // as Mixer::values()
  const Medians& medians() const { return medians_; }                    // of |theirs - own|, by cell

 private:
  bool far_off(const Session& session);

  CellGrid grid_;
  bool wary_;
  Medians medians_;
  Cells cells_;
  std::vector<Measure> measures_;  // of the chunk at hand, by its cells
};

}  // namespace starling::training
