#include "training/mixing/rules/pairwise_top_k.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {
namespace {

// [begin, end) of the places in [from, to).
std::pair<std::size_t, std::size_t> range(std::span<const std::uint32_t> places, std::size_t from,
                                          std::size_t to) {
  const auto begin = std::lower_bound(places.begin(), places.end(), from);
  const auto end = std::lower_bound(begin, places.end(), to);
  return {static_cast<std::size_t>(begin - places.begin()), static_cast<std::size_t>(end - places.begin())};
}

}  // namespace

MixResult<Parcel> PairwiseTopK::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(!loans_.any_in(cells));
  const std::size_t offset = grid_.offset(cells.first);
  places_.clear();
  own_.clear();
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const std::size_t at = grid_.offset(cell), n = grid_.floats(cell), before = places_.size();
    cell_.resize(n);
    if (!target_.read(at, cell_)) return own_diverged(offset);
    mixed_.resize(n);  // what has changed since it was last mixed
    for (std::size_t i = 0; i < n; ++i) mixed_[i] = cell_[i] - kept_[at + i];
    const auto base = static_cast<std::uint32_t>(at - offset);
    select_largest(mixed_, entries_of(fraction_, n), base, places_);
    for (std::size_t i = before; i < places_.size(); ++i) own_.push_back(cell_[places_[i] - base]);
  }
  Parcel parcel{.offset = offset,
                .floats = grid_.floats(cells),
                .payload = Payload::top_k,
                .entries = static_cast<std::uint32_t>(places_.size()),
                .values = write_entries(own_, places_, room)};
  const auto entries = read_entries(parcel, true);
  STARLING_CHECK(entries.ok());
  loans_.add({{session.exchange, cells, parcel}, *entries});
  return parcel;
}

bool PairwiseTopK::read_own(Cells cells, std::span<const std::uint32_t> places) {
  const std::size_t offset = grid_.offset(cells.first);
  bool lent = false;
  own_.resize(places.size());
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const std::size_t at = grid_.offset(cell), n = grid_.floats(cell);
    const auto [begin, end] = range(places, at - offset, at - offset + n);
    cell_.resize(n);
    target_.read(at, cell_);
    for (std::size_t i = begin; i < end; ++i) own_[i] = cell_[places[i] - (at - offset)];
    const LentEntries* loan = loans_.of(cell);
    if (loan == nullptr) continue;
    lent = true;
    const auto& [values, lent_places] = loan->entries;
    std::size_t j = range(lent_places, at - loan->sent.offset, at - loan->sent.offset + n).first;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t place = offset + places[i] - loan->sent.offset;  // in the chunk that is lent
      while (j < lent_places.size() && lent_places[j] < place) ++j;
      if (j < lent_places.size() && lent_places[j] == place) own_[i] = 2 * own_[i] - values[j];
    }
  }
  return lent;
}

MixResult<Mixed> PairwiseTopK::judge(const Session& session, Cells cells, const Entries& theirs,
                                     std::span<const float> own) {
  const std::size_t offset = grid_.offset(cells.first);
  judge_.begin(cells);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const std::size_t from = grid_.offset(cell) - offset;
    const auto [begin, end] = range(theirs.places, from, from + grid_.floats(cell));
    judge_.add(theirs.values.subspan(begin, end - begin), own.subspan(begin, end - begin));
  }
  return judge_.verdict(session, theirs.values);
}

void PairwiseTopK::take(const Session& session, Cells cells, const Entries& theirs,
                        std::span<const float> own, float weight) {
  const std::size_t offset = grid_.offset(cells.first);
  mixed_.resize(own.size());
  target_.mix_at(offset, theirs.places, theirs.values, own, weight * session.own_share, mixed_);
  for (std::size_t i = 0; i < own.size(); ++i) kept_[offset + theirs.places[i]] = mixed_[i];
  judge_.remember(session);
}

MixResult<Mixed> PairwiseTopK::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  if (reply.payload == Payload::none || reply.weight == 0) return Mixed{};
  if (reply.payload != Payload::top_k || reply.entries != sent.entries || reply.offset != sent.offset ||
      reply.floats != sent.floats) {
    return wrong_payload(reply);
  }
  if (reply.weight != 0.25F && reply.weight != 0.5F) return unknown_weight(sent.offset, reply.weight);
  auto theirs = read_entries(reply, false);
  if (!theirs) return theirs.error();
  theirs->places = loan->entries.places;
  const auto mixed = judge(session, loan->cells, *theirs, loan->entries.values);
  if (mixed) take(session, loan->cells, *theirs, loan->entries.values, reply.weight);
  return mixed;
}

MixResult<Parcel> PairwiseTopK::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                          MutableBytes room) {
  if (offer.payload != Payload::top_k) return wrong_payload(offer);
  const auto theirs = read_entries(offer, true);
  if (!theirs) return theirs.error();
  const bool lent = read_own(cells, theirs->places);
  if (!all_acceptable(own_)) return own_diverged(offer.offset);
  if (const auto mixed = judge(session, cells, *theirs, own_); !mixed) return mixed.error();
  const float weight = lent ? 0.25F : 0.5F;
  counters_.overlapped += lent;
  take(session, cells, *theirs, own_, weight);
  return Parcel{.offset = offer.offset,
                .floats = offer.floats,
                .payload = Payload::top_k,
                .weight = weight,
                .entries = offer.entries,
                .values = write_entries(own_, {}, room)};
}

}  // namespace starling::training
