#include "training/mixing/rules/choco.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "training/mixing/rules/top_k.h"

namespace starling::training {
namespace {

// The sequence of a reply that says that the two ends' copies differ.
constexpr std::uint64_t kGap = 1;

std::uint64_t hash_of(std::span<const std::uint64_t> parts) {
  const std::uint64_t hash = hash64(std::as_bytes(parts));
  return hash <= kGap ? ~hash : hash;
}

}  // namespace

Choco::Choco(models::Arena& arena, const MixOptions& options)
    : RuleMixer(arena, options),
      fraction_(options.top_k),
      rate_(static_cast<float>(options.consensus_rate > 0
                                   ? options.consensus_rate
                                   : default_consensus_rate(options.payload, options.top_k))),
      links_most_(options.links) {
  STARLING_CHECK(links_most_ > 0 && payload_ != Payload::none);
}

void Choco::adopt() {
  RuleMixer::adopt();
  links_.clear();
}

ChocoLink& Choco::link_to(std::uint64_t partner) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [partner](const auto& link) { return link->partner == partner; });
  if (found != links_.end()) {
    (*found)->used = ++uses_;
    return **found;
  }
  if (links_.size() >= links_most_) {  // drops the least recently used link without a loan
    auto oldest = links_.end();
    for (auto link = links_.begin(); link != links_.end(); ++link) {
      const bool lent = std::any_of(loans_.begin(), loans_.end(),
                                    [&](const LentOnLink& loan) { return loan.link == link->get(); });
      if (!lent && (oldest == links_.end() || (*link)->used < (*oldest)->used)) oldest = link;
    }
    if (oldest != links_.end()) links_.erase(oldest);
  }
  auto link = std::make_unique<ChocoLink>();
  link->partner = partner;
  link->used = ++uses_;
  link->tags.resize(grid_.count());
  link->mine.resize(grid_.arena_floats);
  link->theirs.resize(grid_.arena_floats);
  links_.push_back(std::move(link));
  return *links_.back();
}

std::uint64_t Choco::sequence(const ChocoLink& link, Cells cells) const {
  const auto tags = std::span(link.tags).subspan(cells.first, cells.count);
  if (std::find(tags.begin(), tags.end(), 0U) != tags.end()) return 0;
  return hash_of(tags);
}

void Choco::forget_copies(ChocoLink& link, Cells cells) {
  std::fill_n(link.tags.begin() + static_cast<std::ptrdiff_t>(cells.first), cells.count, 0U);
}

MixResult<Done> Choco::check_shape(const Parcel& parcel) const {
  if (payload_ != Payload::top_k) return check_dense(parcel, payload_);
  if (parcel.sequence == 0) return check_dense(parcel, Payload::f32);
  if (parcel.payload != Payload::top_k) return wrong_payload(parcel);
  const auto entries = read_entries(parcel, true);
  if (!entries) return entries.error();
  return Done{};
}

void Choco::publish(const Parcel& parcel, std::span<const float> copy, std::span<float> out) const {
  if (parcel.payload == Payload::top_k) {
    std::copy(copy.begin(), copy.end(), out.begin());
    const auto entries = read_entries(parcel, true);
    STARLING_CHECK(entries.ok());
    for (std::size_t i = 0; i < entries->values.size(); ++i) out[entries->places[i]] += entries->values[i];
    return;
  }
  decode(parcel.payload, parcel.values, parcel.floats, 0, out);
  if (parcel.sequence != 0) add(copy, out);
}

MixResult<Parcel> Choco::own_parcel(const Session& session, Cells cells, const ChocoLink& link,
                                    std::uint64_t sequence, MutableBytes room, bool reply) {
  const std::size_t offset = grid_.offset(cells.first), n = grid_.floats(cells);
  const auto copy = std::span(link.mine).subspan(offset, n);
  values_.resize(n);
  target_.read(offset, values_);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    const LentOnLink* loan = loans_.of(cell);
    if (loan == nullptr || loan->yielded) continue;
    // Half of the cell is on its way as the public value that the other link will have.
    own_.resize(loan->sent.floats);
    publish(loan->sent, std::span(loan->link->mine).subspan(loan->sent.offset, loan->sent.floats), own_);
    const std::size_t at = grid_.offset(cell), m = grid_.floats(cell);
    free_half(std::span<const float>(own_).subspan(at - loan->sent.offset, m),
              std::span(values_).subspan(at - offset, m));
  }
  if (!all_acceptable(values_)) return own_diverged(offset);
  Parcel parcel{.offset = offset, .floats = n, .payload = payload_, .sequence = sequence};
  if (sequence != 0) {
    for (std::size_t i = 0; i < n; ++i) values_[i] -= copy[i];
  }
  if (payload_ == Payload::top_k && sequence != 0) {
    places_.clear();
    own_.clear();
    for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
      const std::size_t at = grid_.offset(cell) - offset, m = grid_.floats(cell);
      select_largest(std::span<const float>(values_).subspan(at, m), entries_of(fraction_, m),
                     static_cast<std::uint32_t>(at), places_);
    }
    for (const std::uint32_t place : places_) own_.push_back(values_[place]);
    parcel.entries = static_cast<std::uint32_t>(places_.size());
    parcel.values = write_entries(own_, places_, room);
  } else {
    if (payload_ == Payload::top_k) parcel.payload = Payload::f32;
    parcel.values = encode_dense(parcel.payload, values_, session, offset, reply, room);
  }
  own_.resize(n);
  publish(parcel, copy, own_);
  if (!all_acceptable(own_)) return own_diverged(offset);
  return parcel;
}

void Choco::commit(const Session& session, Cells cells, ChocoLink& link, float weight) {
  const std::size_t offset = grid_.offset(cells.first);
  target_.mix(offset, theirs_, own_, weight * rate_);
  std::copy(own_.begin(), own_.end(), link.mine.begin() + static_cast<std::ptrdiff_t>(offset));
  std::copy(theirs_.begin(), theirs_.end(), link.theirs.begin() + static_cast<std::ptrdiff_t>(offset));
  for (std::size_t k = 0; k < cells.count; ++k) {
    std::uint64_t& tag = link.tags[cells.first + k];
    tag = hash_of(std::array{tag, session.initiator, session.exchange});
  }
  judge_.remember(session);
}

void Choco::values(std::vector<MutableBytes>& out) {
  RuleMixer::values(out);
  for (const auto& link : links_) {
    for (Floats* floats : {&link->mine, &link->theirs})
      out.push_back(std::as_writable_bytes(std::span(*floats)));
  }
}

MixResult<Parcel> Choco::do_lend(const Session& session, Cells cells, MutableBytes room) {
  STARLING_CHECK(!loans_.any_in(cells));
  ChocoLink& link = link_to(session.partner);
  auto parcel = own_parcel(session, cells, link, sequence(link, cells), room, false);
  if (parcel) loans_.add({{session.exchange, cells, *parcel}, &link, session.initiator, false});
  return parcel;
}

MixResult<Mixed> Choco::do_complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  const auto loan = loans_.finish(session, sent);
  if (!loan) return not_lent(sent.offset);
  const Cells cells = loan->cells;
  ChocoLink& link = *loan->link;
  if (reply.payload == Payload::none || reply.weight == 0) {
    if (reply.sequence == kGap) forget_copies(link, cells);
    return Mixed{};
  }
  const auto refuse = [&](MixError error) {  // the partner has applied what this side does not
    forget_copies(link, cells);
    return error;
  };
  if (reply.offset != sent.offset || reply.floats != sent.floats) return refuse(wrong_payload(reply));
  if (loan->yielded || reply.sequence != loan->sent.sequence) {
    return refuse(
        {{"the chunk at " + std::to_string(sent.offset) + " was answered out of order"}, MixFault::sequence});
  }
  if (reply.weight != 0.25F && reply.weight != 0.5F) return refuse(unknown_weight(sent.offset, reply.weight));
  if (auto fits = check_shape(reply); !fits) return refuse(fits.error());
  const std::size_t n = sent.floats;
  own_.resize(n);
  theirs_.resize(n);
  publish(loan->sent, std::span(link.mine).subspan(sent.offset, n), own_);
  publish(reply, std::span(link.theirs).subspan(sent.offset, n), theirs_);
  const auto mixed = judge_.judge(session, cells, theirs_, own_);
  if (!mixed) return refuse(mixed.error());
  commit(session, cells, link, reply.weight * session.own_share);
  return mixed;
}

MixResult<Parcel> Choco::do_answer(const Session& session, Cells cells, const Parcel& offer,
                                   MutableBytes room) {
  if (auto fits = check_shape(offer); !fits) return fits.error();
  ChocoLink& link = link_to(session.partner);
  const Parcel nothing{.offset = offer.offset, .floats = offer.floats, .payload = Payload::none};
  if (offer.sequence != 0 && offer.sequence != sequence(link, cells)) {
    Parcel gap = nothing;
    gap.sequence = kGap;
    return gap;
  }
  bool lent = false;
  std::vector<LentOnLink*> crossed;
  for (std::size_t k = 0; k < cells.count; ++k) {
    LentOnLink* loan = loans_.of(cells.first + k);
    if (loan == nullptr || loan->yielded) continue;
    if (loan->link == &link) {
      if (loan->initiator < session.partner) return nothing;
      crossed.push_back(loan);
    } else {
      lent = true;
    }
  }
  theirs_.resize(offer.floats);
  publish(offer, std::span(link.theirs).subspan(offer.offset, offer.floats), theirs_);
  if (!all_acceptable(theirs_)) return unacceptable(offer.offset, theirs_);
  // An own chunk that crosses this one is void: its cells are no longer lent.
  for (LentOnLink* loan : crossed) loan->yielded = true;
  auto reply = own_parcel(session, cells, link, offer.sequence, room, true);
  const auto mixed = reply ? judge_.judge(session, cells, theirs_, own_) : MixResult<Mixed>(reply.error());
  if (!mixed) {
    for (LentOnLink* loan : crossed) loan->yielded = false;
    return mixed.error();
  }
  reply->weight = lent ? 0.25F : 0.5F;
  counters_.overlapped += lent;
  commit(session, cells, link, reply->weight * session.own_share);
  return reply;
}

}  // namespace starling::training
