// A peer's figures for TensorBoard: what its status says as curves, a point of each at most once a second. Of
// one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "node/front/status.h"
#include "node/work/background.h"
#include "node/work/self_judge.h"
#include "training/records/tensorboard.h"

namespace starling::node {

class Board {
 public:
  // With an event file of its own in `folder`.
  static Result<std::unique_ptr<Board>> open(const std::string& folder);

  // False for good once it could not be written.
  bool is_open() const { return file_ != nullptr; }
  bool is_due() const;
  // A point of each curve, written on the disk's thread, which ends before the board does. `speed`: samples
  // per second of late; `seen`: its own looks at the test set, of which each is shown once. `failed` gets a
  // sentence where it cannot be written.
  void show(const PeerStatus& its, double speed, const std::optional<SelfJudge::Seen>& seen, Background& disk,
            std::function<void(const std::string&)> failed);

 private:
  using Clock = std::chrono::steady_clock;
  explicit Board(std::unique_ptr<training::TensorBoard> file) : file_(std::move(file)) {}

  std::shared_ptr<training::TensorBoard> file_;  // the disk's thread writes
  Clock::time_point shown_{};
  std::uint64_t looks_ = 0;  // the latest that it has
};

}  // namespace starling::node
