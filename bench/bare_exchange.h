// The pairwise exchange reduced to its stages, over a plain socket and one poll() loop per process: the speed
// of the wire alone with chunks and a window, and the costs of checksum, value check and mixing. Without
// daemon, reactor or coroutines, this is the upper bound for node::Exchanger.
#pragma once

#include <cstddef>
#include <memory>

#include "models/arena.h"

namespace starling::bench {

enum class Stage { wire, checksum, check, mix };  // each includes the previous ones
inline constexpr Stage kStages[] = {Stage::wire, Stage::checksum, Stage::check, Stage::mix};
const char* name(Stage stage);

struct BareOptions {
  Stage stage = Stage::mix;
  std::size_t chunk_floats = 32 * 1024;
  std::size_t window = 3;
};

// One side of the exchange, over a connected, non-blocking socket.
class BareExchange {
 public:
  // REQUIRES: the socket and the arena outlive this object.
  BareExchange(int socket, models::Arena& arena, bool initiator, const BareOptions& options);
  ~BareExchange();
  // Exchanges the whole arena once. Exits if the connection breaks.
  void run();

 private:
  class Side;
  std::unique_ptr<Side> side_;
};

}  // namespace starling::bench
