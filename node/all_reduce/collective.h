// What the processes of a run by all-reduce do together: sums, through Gloo. Whether the program was built
// with it is CMake's to know: node/gloo and node/no_gloo each define all of this.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace starling::node {

struct CollectivePlace {
  std::uint32_t rank = 0, size = 1;
  std::string folder;    // where all leave their addresses: of this run alone, empty at first
  Duration patience{0};  // with whoever is silent
};

class Collective {
 public:
  virtual ~Collective() = default;

  // values = their sum over all ranks, the same bits everywhere. All ranks call it, with equally many. An
  // Error, in words that go behind a colon, where one of them is gone or has been silent for too long; then
  // this object is of no use any more.
  virtual Status sum(std::span<float> values) = 0;
  // Until all ranks have called it. An Error as above.
  virtual Status wait_for_all() = 0;
};

// Whether there are collectives; else a sentence that says what to install.
Status check_collectives();

// Waits until all ranks have come, over TCP on 127.0.0.1. An Error as above. REQUIRES: check_collectives() is
// content; rank < size.
Result<std::unique_ptr<Collective>> join_collective(const CollectivePlace& place);

}  // namespace starling::node
