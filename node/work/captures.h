// Copies of the state of a training, taken while it runs, one at a time. Each worker adds its own part
// between two of its steps, on its own thread; after the last part the capture is complete and waits for the
// parameters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "node/work/gate.h"
#include "training/records/peer_state.h"

namespace starling::node {

class Captures {
 public:
  using Done = std::function<void(std::shared_ptr<training::PeerState>)>;

  Captures(Gate& gate, std::size_t workers) : gate_(gate), answered_(workers) {}

  // Requests every worker's part, which is added to `earlier`. False while another capture is under way.
  bool begin(const training::PeerState& earlier, Done done) {
    bool begun = false;
    gate_.change([&] {
      if (state_) return;
      begun = true;
      state_ = std::make_shared<training::PeerState>(earlier);
      state_->workers.resize(answered_.size());
      missing_ = answered_.size();
      done_ = std::move(done);
      ++asked_;
    });
    return begun;
  }

  // Called on the worker's own thread.
  bool awaits(std::size_t worker) const { return answered_[worker] != asked_; }
  // True for the last part. REQUIRES: awaits(worker).
  bool add(std::size_t worker, training::WorkerState own, std::uint64_t steps, std::uint64_t samples) {
    answered_[worker] = asked_;
    bool last = false;
    gate_.change([&] {
      state_->workers[worker] = std::move(own);
      state_->steps += steps;
      state_->samples += samples;
      last = --missing_ == 0;
      complete_ = last;
    });
    return last;
  }
  bool is_complete() const { return complete_; }

  // Calls fill(state), then the capture's `done`. REQUIRES: is_complete(); one thread.
  template <class Fill>
  void finish(Fill fill) {
    fill(*state_);
    std::shared_ptr<training::PeerState> state;
    Done done;
    gate_.change([&] {
      state = std::move(state_);
      state_.reset();
      done = std::move(done_);
      complete_ = false;
    });
    done(std::move(state));
  }

 private:
  Gate& gate_;
  std::atomic<std::uint64_t> asked_{0};
  std::vector<std::uint64_t> answered_;  // captures, by worker; written by that worker
  std::shared_ptr<training::PeerState>
      state_;  // of the current capture; this and the next ones need the gate's lock
  Done done_;
  std::size_t missing_ = 0;
  std::atomic<bool> complete_{false};
};

}  // namespace starling::node
