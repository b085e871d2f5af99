// The collective operations of a run without gossip over its processes, through Gloo. CMake decides whether
// the program has it: node/all_reduce/gloo and node/all_reduce/no_gloo each define everything here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace starling::node {

struct CollectivePlace {
  std::uint32_t rank = 0, size = 1;
  std::string folder;    // where all leave their addresses: empty at first, and only for this run
  Duration patience{0};  // with a silent rank
};

class Collective {
 public:
  virtual ~Collective() = default;

  // values = their sum over all ranks, the same bits everywhere. All ranks call it with the same number of
  // values. An Error, worded to follow a colon, if a rank is gone or silent for too long; then this object is
  // unusable.
  virtual Status sum(std::span<float> values) = 0;
  // Sends the k-th of size equal parts of `parts` to rank k, and receives one from each, in their order.
  // REQUIRES: both have the same length on all ranks.
  virtual Status to_each(Bytes parts, MutableBytes received) = 0;
  // Sends `part` to all ranks; `received` gets one from each, in their order. REQUIRES: the same length on
  // all ranks; received.size() == size * part.size().
  virtual Status to_all(Bytes part, MutableBytes received) = 0;
  // Returns when all ranks have called it. An Error as above.
  virtual Status wait_for_all() = 0;
};

// Whether the program has collectives; the Error names what to install.
Status check_collectives();

// Waits until all ranks have joined, over TCP on 127.0.0.1. An Error as above. The process ignores SIGPIPE
// from then on, so a write to a rank that is gone is an error. REQUIRES: check_collectives() succeeds; rank <
// size.
Result<std::unique_ptr<Collective>> join_collective(const CollectivePlace& place);

}  // namespace starling::node
