#include "node/exchange/joiner.h"

#include <algorithm>
#include <ranges>

#include <spdlog/spdlog.h>

#include "base/check.h"
#include "training/mixing/values.h"
#include "transport/coroutines.h"

namespace starling::node {

using transport::Frame;

namespace {

constexpr std::size_t kCellsPerChunk = 4;
constexpr int kSignsOfLifeMax = 120;

}  // namespace

struct Joiner::Fetch {
  Endpoint donor;
  transport::LinkPtr link;
  bool abandoned = false;
  bool unusable = false;                               // what the donor sends
  Status trainer_state = Error{"none was asked for"};  // Done: it is complete
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
  if (const TrainerState& state = plane_.trainer_state; state.fingerprint != 0) {
    if (!fetch->trainer_state)
      spdlog::warn("the trainer begins without the state of another one's optimizer: {}",
                   fetch->trainer_state.error().message);
    state.arrived(fetch->trainer_state.ok());
  }
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
  const wire::StateRequest request{plane_.fingerprint, static_cast<std::uint32_t>(chunks.cell_floats), first,
                                   plane_.trainer_state.fingerprint};
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
  const std::uint64_t words = head->trainer_words;
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
  if (plane_.trainer_state.fingerprint != 0) {
    fetch->trainer_state = co_await copy_trainer_state(fetch, words);
    if (fetch->abandoned) co_return given_up;
  }
  co_return Done{};
}

// After the parameters. An Error does not end the copy: the trainer begins without the state.
asio::awaitable<Status> Joiner::copy_trainer_state(FetchPtr fetch, std::uint64_t words) {
  const TrainerState& state = plane_.trainer_state;
  if (words == 0) co_return Error{"the donor has no trainer with the same optimizer"};
  if (words != state.words()) co_return Error{"the donor's has another length"};
  const auto chunks = grid();
  const training::CellGrid parts{state.words(), chunks.cell_floats};
  int signs_of_life = 0;
  for (std::size_t part = 0; part < parts.count();) {
    const auto frame = co_await fetch->link->read();
    if (fetch->abandoned) co_return Error{"given up"};
    if (!frame) {
      plane_.links.note(frame.error());
      co_return frame.error();
    }
    fetch->link->expires_after(plane_.options.stall);
    if (frame->kind != wire::FrameKind::chunk) {
      const auto message = transport::message_in(*fetch->link, *frame);
      if (part == 0 && message && std::holds_alternative<wire::StateHead>(*message) &&
          signs_of_life < kSignsOfLifeMax) {
        if (++signs_of_life == 1) spdlog::info("the donor's trainer gives its state after its step");
        plane_.report(gossip::StateAdvanced{in_place_, chunks.count()});
        if (fetch->abandoned) co_return Error{"given up"};  // by the event's handler
        continue;
      }
      const auto* refusal = message ? std::get_if<wire::Refusal>(&*message) : nullptr;
      co_return Error{refusal != nullptr ? refusal->text : "a message came in its place"};
    }
    const auto& head = frame->chunk;
    if (head.kind != wire::ChunkKind::state || head.offset != chunks.arena_floats + parts.offset(part) ||
        head.floats != parts.floats(part) || frame->body.size() != sizeof(float) * head.floats)
      co_return Error{"a chunk came out of order"};
    std::ranges::copy(frame->body, state.received.begin() + sizeof(float) * parts.offset(part));
    ++part;
    plane_.report(gossip::StateAdvanced{in_place_, chunks.count()});
    if (fetch->abandoned) co_return Error{"given up"};  // by the event's handler
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
