// A peer's figures for TensorBoard: the curves of its status, at most one point of each per second. Used by
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
#include "training/runs/records/tensorboard.h"

namespace starling::node {

class Board {
 public:
  // Creates a new event file in `folder`.
  static Result<std::unique_ptr<Board>> open(const std::string& folder);

  // False from the first failed write on.
  bool is_open() const { return file_ != nullptr; }
  bool is_due() const;
  // Adds a point to each curve on the disk's thread, which ends before the board. `seen`: the latest
  // evaluation of the replica, shown once. Calls `failed` with a sentence if the write fails.
  void show(const PeerStatus& its, const std::optional<SelfJudge::Seen>& seen, Background& disk,
            std::function<void(const std::string&)> failed);

 private:
  using Clock = std::chrono::steady_clock;
  explicit Board(std::unique_ptr<training::TensorBoard> file) : file_(std::move(file)) {}

  std::shared_ptr<training::TensorBoard> file_;  // written on the disk's thread
  Clock::time_point shown_{};
  std::uint64_t looks_ = 0;  // the number of the latest evaluation shown
};

}  // namespace starling::node
