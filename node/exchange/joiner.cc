#include "node/exchange/joiner.h"

#include <algorithm>

#include "base/check.h"
#include "training/mixing/values.h"
#include "transport/coroutines.h"

namespace starling::node {

using transport::Frame;

namespace {

constexpr std::size_t kCellsPerChunk = 4;

}  // namespace

struct Joiner::Fetch {
  Endpoint donor;
  transport::LinkPtr link;
  bool abandoned = false;
  bool unusable = false;  // what the donor sends
};

// The chunks of a copy: runs of whole cells that fit into a frame.
training::CellGrid Joiner::grid() const {
  const auto& cells = plane_.mixer->grid();
  const std::size_t most = std::max<std::size_t>(1, wire::kChunkFloatsMax / cells.cell_floats);
  const std::size_t fewest = (plane_.options.copied_floats_min + cells.cell_floats - 1) / cells.cell_floats;
  const std::size_t wanted = std::max(fewest, plane_.options.chunk_cells.value_or(kCellsPerChunk));
  const std::size_t together = std::min(most, wanted);
  return {cells.arena_floats, cells.cell_floats * together};
}

void Joiner::fetch(const Endpoint& donor, bool afresh) {
  STARLING_CHECK(plane_.mixer != nullptr && !fetch_);
  if (afresh) in_place_ = 0;
  plane_.copying = true;
  fetch_ = std::make_shared<Fetch>();
  fetch_->donor = donor;
  transport::spawn(plane_.executor, run(fetch_));
}

void Joiner::abort() {
  if (!fetch_) return;
  fetch_->abandoned = true;
  if (fetch_->link) fetch_->link->close();
  fetch_.reset();
}

asio::awaitable<void> Joiner::run(FetchPtr fetch) {
  if (fetch->abandoned) co_return;
  const Status copied = co_await copy(fetch);
  if (fetch->link) fetch->link->close();
  if (fetch->abandoned) co_return;
  fetch_.reset();
  if (!copied) {
    co_return plane_.report(gossip::StateLost{
        "copying parameters from " + to_string(fetch->donor.address) + ": " + copied.error().message,
        fetch->unusable});
  }
  in_place_ = 0;  // a later fetch is a new copy
  plane_.copying = plane_.diverged = false;
  plane_.report(gossip::StateArrived{});
}

asio::awaitable<Status> Joiner::copy(FetchPtr fetch) {
  const Error given_up{"given up"};  // not reported
  auto dialed = co_await plane_.links.dial_bulk(fetch->donor);
  if (!dialed) co_return dialed.error();
  const transport::LinkPtr link = fetch->link = dialed->link;
  if (fetch->abandoned) co_return given_up;
  const auto chunks = grid();
  const std::size_t first = in_place_;
  const wire::StateRequest request{plane_.fingerprint, static_cast<std::uint32_t>(chunks.cell_floats), first};
  link->expires_after(plane_.options.stall);
  if (const auto written = co_await transport::write_message(*link, request); !written)
    co_return written.error();
  const auto answer = co_await transport::read_message(*link);
  if (fetch->abandoned) co_return given_up;
  if (!answer) co_return answer.error();
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer)) co_return Error{refusal->text};
  const auto* head = std::get_if<wire::StateHead>(&*answer);
  if (head == nullptr || head->arena_floats != chunks.arena_floats ||
      head->chunks != chunks.count() - first) {
    fetch->unusable = true;
    co_return Error{"it offers parameters of another length"};
  }
  for (std::size_t chunk = first; chunk < chunks.count(); ++chunk) {
    const auto frame = co_await link->read();
    if (fetch->abandoned) co_return given_up;
    if (!frame) {
      plane_.links.note(frame.error());
      co_return frame.error();
    }
    link->expires_after(plane_.options.stall);
    if (Status placed = put_in_place(*fetch, *frame); !placed) co_return placed;
    plane_.report(gossip::StateAdvanced{in_place_, chunks.count()});
    if (fetch->abandoned) co_return given_up;  // by the event's handler
  }
  co_return Done{};
}

// Writes the frame's values to the arena. An Error if the frame is not the next chunk of the copy.
Status Joiner::put_in_place(Fetch& fetch, const Frame& frame) {
  const auto chunks = grid();
  const auto& head = frame.chunk;
  if (frame.kind != wire::FrameKind::chunk || head.kind != wire::ChunkKind::state ||
      head.offset != chunks.offset(in_place_) || head.floats != chunks.floats(in_place_)) {
    return Error{"a chunk came out of order"};
  }
  // A link's buffer is aligned for floats, and the wire is little-endian IEEE 754, like the host.
  const std::span values(reinterpret_cast<const float*>(frame.body.data()), head.floats);
  if (!training::all_acceptable(values)) {
    ++plane_.counters.chunks_refused;
    fetch.unusable = true;
    return Error{"its parameters are not finite, or beyond 2^60"};
  }
  plane_.arena->write(head.offset, values);
  ++in_place_;
  return Done{};
}

}  // namespace starling::node
