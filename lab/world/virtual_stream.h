// The batches of a virtual peer whose devices are the stages of a pipeline without a flush, as
// training::StreamedNetwork in the daemon: they follow one another, and each stage updates its parameters
// when its backward pass ends. The machines of the stages (training/planner/machine.h) run in the time of
// the world; the learner computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lab/world/learner.h"
#include "lab/world/virtual_machine.h"
#include "training/planner/machine.h"
#include "training/planner/timing.h"

namespace starling::lab {

class VirtualStream {
 public:
  // `landed`: a batch has come out, and the learner has its updates. `awaits`: awaits_batch() became true.
  VirtualStream(VirtualMachine& machine, VirtualReplica& replica, std::function<void()> landed,
                std::function<void()> awaits)
      : machine_(machine), replica_(replica), landed_(std::move(landed)), awaits_(std::move(awaits)) {}

  // Whether the first stage, or the replica that gets the next batch, is idle and has to begin it next.
  bool awaits_batch() const;
  // Begins a batch. `number`: among the machine's. REQUIRES: awaits_batch().
  void feed(std::uint64_t number);
  // No batch follows those under way, so they come out; then another stream may begin.
  void end();
  // Batches under way are lost.
  void clear();
  std::uint64_t under_way() const { return fed_ - came_out_; }

 private:
  using Task = training::StageTask;

  // A replica of a stage, by number (training::PipelineShape::number_of()).
  struct Part {
    std::size_t stage;
    std::uint32_t replica;
    training::StageMachine machine;
    Task last{Task::Kind::update, 0};  // that it began
    training::StageWork work{};        // under way
    std::uint64_t left =
        0;  // of its batches, those that an update of the first stage has followed if it had to
  };

  const StreamOptions& options() const { return *machine_.options().stream; }
  void begin();
  void advance(std::size_t part);
  void finish(std::size_t part);
  void land();
  void send(std::size_t stage, const training::StageMessage& message);
  bool is_over() const;

  // Schedules a happening that is dropped if the batches are.
  template <class Happening>
  void later(Instant at, Happening happening) {
    machine_.later(at, [this, happening, stream = stream_]() mutable {
      if (stream == stream_) happening();
    });
  }

  VirtualMachine& machine_;
  VirtualReplica& replica_;
  std::function<void()> landed_, awaits_;
  std::vector<Part> parts_;  // of the stream that runs, else empty
  std::optional<training::StageTransfers> transfers_;
  std::uint32_t stream_ = 0;  // counts streams
  std::uint64_t fed_ = 0, came_out_ = 0;
  std::uint64_t first_ = 0;  // the number of its first batch
  bool ends_ = false;
};

}  // namespace starling::lab
