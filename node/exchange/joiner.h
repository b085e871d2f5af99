// A joiner's first copy: fetches the parameters from a donor, chunk by chunk. The next donor continues where
// the last one stopped.
#pragma once

#include <memory>

#include <asio/awaitable.hpp>

#include "node/exchange/plane.h"

namespace starling::node {

class Joiner {
 public:
  explicit Joiner(Plane& plane) : plane_(plane) {}

  // `afresh`: discards the chunks in place. REQUIRES: there is an arena, and no fetch is under way.
  void fetch(const Endpoint& donor, bool afresh);
  void abort();

 private:
  struct Fetch;
  using FetchPtr = std::shared_ptr<Fetch>;

  training::CellGrid grid() const;
  asio::awaitable<void> run(FetchPtr fetch);
  asio::awaitable<Status> copy(FetchPtr fetch);
  Status put_in_place(Fetch& fetch, const transport::Frame& frame);
  asio::awaitable<Status> copy_trainer_state(FetchPtr fetch, std::uint64_t words);

  Plane& plane_;
  FetchPtr fetch_;
  std::size_t in_place_ = 0;  // chunks
};

}  // namespace starling::node
