#include "node/exchange/exchanger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::node {

Exchanger::Exchanger(asio::any_io_executor executor, transport::LinkTable& links,
                     std::function<void(gossip::Event)> report, const ExchangerOptions& options,
                     std::function<std::uint64_t()> steps)
    : plane_{std::move(executor), links, std::move(report), std::move(steps), options} {
  STARLING_CHECK(options.window.value_or(1) > 0 && options.chunk_cells.value_or(1) > 0);
}

void Exchanger::attach(models::Arena& arena, std::uint64_t fingerprint, training::Mixer& mixer,
                       TrainerState trainer_state) {
  STARLING_CHECK(plane_.mixer == nullptr && mixer.grid().cell_floats <= wire::kChunkFloatsMax);
  // No chunk is longer than a frame has room for.
  if (auto& cells = plane_.options.chunk_cells)
    cells = std::min(*cells, wire::kChunkFloatsMax / mixer.grid().cell_floats);
  plane_.arena = &arena;
  plane_.fingerprint = fingerprint;
  plane_.mixer = &mixer;
  plane_.trainer_state = std::move(trainer_state);
}

void Exchanger::begin(std::uint64_t exchange, const Endpoint& partner, const gossip::Terms& terms) {
  STARLING_CHECK(!closed_);
  initiator_.begin(exchange, partner, terms);
}

void Exchanger::fetch_state(const Endpoint& donor, bool afresh) {
  STARLING_CHECK(!closed_);
  joiner_.fetch(donor, afresh);
}

void Exchanger::serve(transport::LinkPtr link, wire::Hello remote) {
  if (closed_) return link->close();
  responder_.serve(std::move(link), std::move(remote));
}

void Exchanger::close() {
  if (std::exchange(closed_, true)) return;
  initiator_.close();
  responder_.close();
  joiner_.abort();
}

}  // namespace starling::node
