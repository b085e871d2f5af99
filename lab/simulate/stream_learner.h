// The learner of a simulated peer whose devices are the stages of a pipeline without a flush (PipeDream).
// Both passes of a batch in a stage use the parameters that the arena has when the forward pass begins there,
// or an earlier pass's between the same two updates. So the gradient of a batch is the whole network's for a
// vector in which each stage has its own version of its parameters, and each stage's part of it is added to
// the arena when that stage updates. A tensor that two stages use is read by both as the first one read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "kernels/buffer.h"
#include "lab/simulate/learner_state.h"
#include "lab/simulate/virtual_worker.h"
#include "lab/thread_pool.h"
#include "models/spec.h"
#include "training/learning/stage_floats.h"

namespace starling::lab {

// What each stage trains. `cuts`: the first layer of each stage but the first.
std::vector<training::StageFloats> floats_of_stages(const models::Plan& plan,
                                                    const std::vector<std::size_t>& cuts);

class StreamLearner final : public RestorableLearner {
 public:
  struct Stream {
    std::vector<training::StageFloats> stages;
    std::vector<std::uint32_t> replicas;  // of each stage
    std::uint32_t micro_batches = 1;      // batches of each replica for an update
    bool vertical_sync = false;
  };

  // References outlive the learner; `rate` and `rehearsing` as of RestorableLearner.
  StreamLearner(std::unique_ptr<VirtualWorker> worker, Stream stream, const models::Plan& plan,
                const LearningRate& rate, ThreadPool& pool, const bool& rehearsing);
  ~StreamLearner() override { drop_batches(); }

  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override;
  void discard_step(std::uint32_t) override;
  void begin_work(std::size_t stage, const training::StageWork& work, const models::Arena& arena) override;
  void end_work(std::size_t stage, const training::StageWork& work, models::Arena& arena) override;
  void renew() override;
  void over() override;

  void save(StateWriter& out, const models::Arena& arena) override;
  Status load(StateReader& in, const models::Arena& arena) override;

 private:
  // Under way, from its forward pass in the first stage to its update there.
  struct Batch {
    std::uint64_t number = 0;  // of the stream
    double factor = 1;         // of the learning rate
    double loss = 0;
    kernels::Buffer vector{};  // parameters, stage by stage; from the last stage's backward pass the gradient
    std::future<double> computing{};
  };
  struct Stage {
    std::map<std::uint64_t, std::vector<float>> versions{};  // that forward passes may read
    std::vector<float> sum{};                                // of gradients, if several are for an update
    std::uint64_t summed = 0;                                // gradients since the last update
    std::uint64_t latest = 0;                                // the batch of the latest of them
    double factor = 1;                                       // its
    std::uint64_t updates = 0;  // of the stream; the first replica that can makes one
  };

  void drop_oldest();
  void drop_batches();
  void begin_stream(const models::Arena& arena);
  void read_version(std::size_t stage, std::uint64_t version, const models::Arena& arena, Batch& batch);
  const std::vector<float>& version_of(std::size_t stage, std::uint64_t version, const models::Arena& arena);
  void add_gradient(std::size_t stage, const Batch& batch);
  void update(std::size_t stage, std::uint64_t number, models::Arena& arena);
  void wait(Batch& batch);
  // Whether several gradients are for an update of the stage.
  bool sums(std::size_t stage) const { return stream_.micro_batches > 1 || stream_.replicas[stage] > 1; }
  Batch& batch_of(std::uint64_t number) { return batches_.at(number - batches_.front().number); }

  std::unique_ptr<VirtualWorker> worker_;
  Stream stream_;
  ThreadPool& pool_;
  std::size_t floats_;
  std::vector<Stage> stages_;
  std::deque<Batch> batches_;           // by number
  std::vector<kernels::Buffer> spare_;  // vectors
  std::uint64_t updates_ = 0;           // of the first stage since the stream began
  bool renewed_ = false;
};

}  // namespace starling::lab
