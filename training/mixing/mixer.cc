#include "training/mixing/mixer.h"

#include <algorithm>

namespace starling::training {

std::size_t CellGrid::floats(std::size_t cell) const {
  if (cell >= count()) return 0;
  return std::min(cell_floats, arena_floats - offset(cell));
}

std::size_t CellGrid::floats(Cells cells) const {
  const std::size_t end = std::min(arena_floats, offset(cells.first + cells.count));
  return end - std::min(end, offset(cells.first));
}

const char* name(MixFault fault) {
  static constexpr std::array<const char*, kMixFaults> kNames = {
      "shape", "weight", "sequence", "late", "not finite", "too large", "far off", "own replica"};
  return kNames[static_cast<std::size_t>(fault)];
}

std::map<std::string, std::uint64_t> refused_by_reason(const MixCounters& counters) {
  std::map<std::string, std::uint64_t> refused;
  for (std::size_t i = 0; i < kMixFaults; ++i) {
    if (counters.refused[i] == 0) continue;
    std::string reason = name(static_cast<MixFault>(i));
    std::replace(reason.begin(), reason.end(), ' ', '_');
    refused[reason] = counters.refused[i];
  }
  return refused;
}

void Mixer::values(std::vector<MutableBytes>& out) {
  out.push_back(std::as_writable_bytes(std::span(&counters_, 1)));
}

MixResult<Parcel> Mixer::lend(const Session& session, Cells cells, MutableBytes room) {
  auto parcel = do_lend(session, cells, room);
  if (!parcel) ++counters_.refused[static_cast<std::size_t>(parcel.error().fault)];
  return parcel;
}

MixResult<Mixed> Mixer::complete(const Session& session, const Parcel& sent, const Parcel& reply) {
  auto mixed = do_complete(session, sent, reply);
  if (!mixed) {
    ++counters_.refused[static_cast<std::size_t>(mixed.error().fault)];
  } else if (reply.payload != Payload::none && sent.offset + sent.floats == grid_.arena_floats) {
    arena_.count_mix();
  }
  return mixed;
}

MixResult<Parcel> Mixer::answer(const Session& session, const Parcel& offer, MutableBytes room) {
  const auto cells = cells_of(offer);
  auto reply = cells ? do_answer(session, *cells, offer, room) : MixResult<Parcel>(cells.error());
  if (!reply) {
    ++counters_.refused[static_cast<std::size_t>(reply.error().fault)];
    return reply;
  }
  ++counters_.answered;
  if (offer.payload != Payload::none && offer.offset + offer.floats == grid_.arena_floats) arena_.count_mix();
  return reply;
}

MixResult<Cells> Mixer::cells_of(const Parcel& parcel) const {
  const std::size_t first = parcel.offset / grid_.cell_floats;
  const std::size_t end = parcel.offset + parcel.floats;
  const bool begins = parcel.offset % grid_.cell_floats == 0 && parcel.offset < grid_.arena_floats;
  const bool ends = end == grid_.arena_floats || (end < grid_.arena_floats && end % grid_.cell_floats == 0);
  if (parcel.floats == 0 || !begins || !ends) {
    return MixError{{"a chunk of the floats [" + std::to_string(parcel.offset) + ", " + std::to_string(end) +
                     ") of " + std::to_string(grid_.arena_floats) + "; chunks are whole cells of " +
                     std::to_string(grid_.cell_floats)},
                    MixFault::shape};
  }
  return Cells{first, grid_.cells_in(end) - first};
}

}  // namespace starling::training
