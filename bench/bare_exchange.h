// The pairwise exchange reduced to its stages, over a plain socket and one poll() loop a process: what the
// wire alone allows with chunks and a window, and what the checksum, the check of the values and the mix each
// take away. No daemon, no reactor, no coroutine: the bound that node::Exchanger is held against.
#pragma once

#include <cstddef>
#include <memory>

#include "models/arena.h"

namespace starling::bench {

enum class Stage { wire, checksum, check, mix };  // each includes those before it
inline constexpr Stage kStages[] = {Stage::wire, Stage::checksum, Stage::check, Stage::mix};
const char* name(Stage stage);

struct BareOptions {
  Stage stage = Stage::mix;
  std::size_t chunk_floats = 32 * 1024;
  std::size_t window = 3;
};

// One of the two sides, over a connected, non-blocking socket.
class BareExchange {
 public:
  // REQUIRES: socket and arena outlive it.
  BareExchange(int socket, models::Arena& arena, bool initiator, const BareOptions& options);
  ~BareExchange();
  // One exchange of the whole arena. Ends the program where the connection breaks.
  void run();

 private:
  class Side;
  std::unique_ptr<Side> side_;
};

}  // namespace starling::bench
