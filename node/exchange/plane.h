// What an Exchanger's parts have in common. It lives as long as the Exchanger; coroutines may outlive both,
// and look at their own `over` before they touch it again.
#pragma once

#include <chrono>

#include <asio/any_io_executor.hpp>

#include "models/arena.h"
#include "node/exchange/events.h"
#include "node/exchange/room.h"
#include "training/exchange/mixer.h"
#include "transport/link_table.h"

namespace starling::node {

struct Plane {
  Plane(asio::any_io_executor e, transport::LinkTable& l, ExchangerEvents v, const ExchangerOptions& o)
      : executor(std::move(e)), links(l), events(std::move(v)), options(o), rooms(o.rooms_bytes_max) {}

  // Of the steady clock, for what is measured.
  static Duration now() {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
  }

  std::uint64_t steps() const { return events.steps ? events.steps() : 0; }

  // This peer's own values may not travel: it gives nothing until they are renewed.
  void diverge() {
    diverged = true;
    events.on_diverged();
  }

  asio::any_io_executor executor;
  transport::LinkTable& links;
  ExchangerEvents events;
  ExchangerOptions options;
  ExchangerCounters counters;
  RoomStore rooms;
  models::Arena* arena = nullptr;
  training::Mixer* mixer = nullptr;  // null: there are no parameters yet
  std::uint64_t fingerprint = 0;
  bool diverged = false;
  bool copying = false;  // a first copy is not complete: what the arena holds is nobody's parameters
};

}  // namespace starling::node
