#include "training/learning/batch_stream.h"

#include <type_traits>
#include <utility>

#include "base/check.h"

namespace starling::training {
namespace {

// A StagedNetwork or a SlicedNetwork, with the functions of models::Network.
template <class Network>
class ThreadedNetwork {
 public:
  template <class Options>
  ThreadedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                  const Options& options)
      : queue_(backend.make_queue()), network_(plan, backend, batch, options) {}

  kernels::Queue& queue() { return *queue_; }
  int predictions() const { return network_.predictions(); }
  void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient, kernels::LossValue* value) {
    value->sum = network_.train(parameters, inputs, labels, gradient) * network_.predictions();
  }
  void set_draws(std::uint64_t batches) { network_.set_draws(batches); }
  std::size_t parts() const { return network_.parts(); }
  std::shared_ptr<const StageClock> clock() const { return network_.clock(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) { network_.on_each_thread(settle); }

 private:
  std::unique_ptr<kernels::Queue> queue_;
  Network network_;
};

// A stream of depth one. A device records its step once for each lane of the feed.
template <class Network>
class GradientStream final : public BatchStream {
 public:
  // `make_network` returns a Network.
  template <class MakeNetwork>
  GradientStream(MakeNetwork make_network, Feed feed, const kernels::Backend& backend,
                 std::size_t arena_floats, Owner owner)
      : network_(make_network()),
        feed_(std::move(feed)),
        owner_(std::move(owner)),
        lanes_(feed_.lanes()),
        computed_{kernels::Buffer(arena_floats, backend.memory())} {
    for (Lane& lane : lanes_) {
      lane.done = network_.queue().make_mark();
      lane.loss = kernels::Staged<kernels::LossValue>(backend.staging());
    }
  }

  void feed(Batches& batches, const models::Arena& arena) override {
    STARLING_CHECK(!in_flight_);
    Lane& lane = lanes_[next_];
    lane.done->wait();  // then its part of the feed is free and its loss is valid
    const double loss_before = lane.loss->sum;
    if (parameters_ != arena.data()) {
      for (Lane& recorded : lanes_) recorded.recording.reset();
      parameters_ = arena.data();
    }
    batches.draw(feed_, next_);
    network_.queue().run(lane.recording, [this] { compute(next_); });
    network_.queue().mark(*lane.done);
    next_ = (next_ + 1) % lanes_.size();
    const bool late = lanes_.size() > 1 && lane.made;
    if (!late) lane.done->wait();
    lane.made = true;
    computed_.loss = (late ? loss_before : lane.loss->sum) / static_cast<double>(network_.predictions());
    in_flight_ = true;
  }

  std::optional<double> land(bool updates) override {
    if (!std::exchange(in_flight_, false)) return std::nullopt;
    if (updates) owner_.apply({0, computed_.gradient.data(), owner_.rate_factor(), 0});
    return computed_.loss;
  }

  bool is_full() const override { return in_flight_; }
  std::size_t in_flight() const override { return in_flight_ ? 1 : 0; }
  Computed* computed() override { return in_flight_ ? &computed_ : nullptr; }
  std::shared_ptr<const StageClock> stage_clock() const override {
    if constexpr (std::is_same_v<Network, ThreadedNetwork<StagedNetwork>>)
      return network_.clock();
    else
      return nullptr;
  }
  kernels::Queue& queue() override { return network_.queue(); }
  void set_draws(std::uint64_t batches) override { network_.set_draws(batches); }

  std::size_t threads() const override {
    if constexpr (std::is_same_v<Network, models::Network>)
      return 1;
    else
      return network_.parts();
  }
  void on_each_thread(const std::function<void(std::size_t)>& settle) override {
    if constexpr (std::is_same_v<Network, models::Network>)
      settle(0);
    else
      network_.on_each_thread(settle);
  }

 private:
  // Of the feed: the device's recording of the step, the end of its last run, and the loss of that run.
  struct Lane {
    std::unique_ptr<kernels::Queue::Recording> recording;
    std::unique_ptr<kernels::Queue::Mark> done;
    kernels::Staged<kernels::LossValue> loss;
    bool made = false;  // has run at least once
  };

  void compute(std::size_t lane) {
    feed_.bring(lane, network_.queue());
    network_.start_training(parameters_, feed_.inputs(), feed_.labels(), computed_.gradient.data(),
                            lanes_[lane].loss.get());
  }

  Network network_;
  Feed feed_;
  const Owner owner_;
  std::vector<Lane> lanes_;
  std::size_t next_ = 0;               // lane
  const float* parameters_ = nullptr;  // read by the recordings
  Computed computed_;
  bool in_flight_ = false;
};

// The stages of a pipeline without a flush. They compute on the host, so the feed has one lane.
class StageStream final : public BatchStream {
 public:
  StageStream(const models::Plan& plan, const kernels::Backend& backend, int batch,
              const StagedOptions& options, Feed feed, Owner owner)
      : queue_(backend.make_queue()),
        feed_(std::move(feed)),
        rate_factor_(std::move(owner.rate_factor)),
        network_(plan, backend, batch, options) {
    network_.set_apply(std::move(owner.apply));
  }

  void feed(Batches& batches, const models::Arena& arena) override {
    STARLING_CHECK(!is_full());
    batches.draw(feed_, 0);
    out_ = network_.feed(arena, feed_.inputs(), feed_.labels(), rate_factor_());
  }
  std::optional<double> land(bool /*updates*/) override {
    return out_ ? std::exchange(out_, std::nullopt) : network_.land();
  }
  bool is_full() const override { return out_ || network_.must_land(); }
  std::size_t in_flight() const override { return network_.in_flight() + (out_ ? 1 : 0); }

  std::vector<std::vector<FloatRange>> stages() const override {
    std::vector<std::vector<FloatRange>> ranges;
    for (std::size_t s = 0; s < network_.stages(); ++s) ranges.push_back(network_.ranges(s));
    return ranges;
  }
  std::shared_ptr<const StageClock> stage_clock() const override { return network_.clock(); }
  kernels::Queue& queue() override { return *queue_; }
  void set_draws(std::uint64_t batches) override { network_.set_draws(batches); }
  std::size_t threads() const override { return network_.parts(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) override {
    network_.on_each_thread(settle);
  }

 private:
  std::unique_ptr<kernels::Queue> queue_;
  Feed feed_;
  const std::function<double()> rate_factor_;
  std::optional<double> out_;  // the loss of a batch that came out of the stages in feed()
  StreamedNetwork network_;    // last: its threads use the others
};

template <class Network>
std::size_t bytes_of(const Network& network) {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < network.parts(); ++k) bytes += network.memory(k).total();
  return bytes;
}

}  // namespace

std::unique_ptr<BatchStream> make_batch_stream(const models::Plan& plan, const kernels::Backend& backend,
                                               Feed feed, int batch, const NetworkForm& form,
                                               BatchStream::Owner owner) {
  const auto of_gradients = [&](auto make_network) -> std::unique_ptr<BatchStream> {
    return std::make_unique<GradientStream<decltype(make_network())>>(
        make_network, std::move(feed), backend, plan.layout.arena_size(), std::move(owner));
  };
  if (const auto* whole = std::get_if<models::NetworkOptions>(&form))
    return of_gradients(
        [&] { return models::Network(plan, backend, batch, models::NetworkUse::train, *whole); });
  if (const auto* slices = std::get_if<SlicedOptions>(&form))
    return of_gradients([&] { return ThreadedNetwork<SlicedNetwork>(plan, backend, batch, *slices); });
  const auto& stages = std::get<StagedOptions>(form);
  if (pipeline_traits(stages.schedule).flushes)
    return of_gradients([&] { return ThreadedNetwork<StagedNetwork>(plan, backend, batch, stages); });
  return std::make_unique<StageStream>(plan, backend, batch, stages, std::move(feed), std::move(owner));
}

std::size_t divided_bytes(const models::Plan& plan, const kernels::Backend& backend, int batch,
                          const NetworkForm& form) {
  if (const auto* slices = std::get_if<SlicedOptions>(&form))
    return bytes_of(SlicedNetwork(plan, backend, batch, *slices));
  const auto& stages = std::get<StagedOptions>(form);
  if (pipeline_traits(stages.schedule).flushes) return bytes_of(StagedNetwork(plan, backend, batch, stages));
  return bytes_of(StreamedNetwork(plan, backend, batch, stages));
}

}  // namespace starling::training
