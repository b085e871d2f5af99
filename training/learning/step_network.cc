#include "training/learning/step_network.h"

#include "base/check.h"

namespace starling::training {
namespace {

template <class Network>
std::size_t sum_of(const Network& network) {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < network.parts(); ++k) bytes += network.memory(k).total();
  return bytes;
}

class WholeStep final : public StepNetwork {
 public:
  WholeStep(const models::Plan& plan, const kernels::Backend& backend, int batch,
            const models::NetworkOptions& options)
      : network_(plan, backend, batch, models::Purpose::train, options) {}

  kernels::Queue& queue() override { return network_.queue(); }
  int predictions() const override { return network_.predictions(); }
  void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient, kernels::LossValue* value) override {
    network_.start_training(parameters, inputs, labels, gradient, value);
  }
  void set_draws(std::uint64_t batches) override { network_.set_draws(batches); }

 private:
  models::Network network_;
};

// A StagedNetwork or a SlicedNetwork.
template <class Network, class Options>
class DividedStep final : public StepNetwork {
 public:
  DividedStep(const models::Plan& plan, const kernels::Backend& backend, int batch, const Options& options)
      : queue_(backend.make_queue()), network_(plan, backend, batch, options) {}

  kernels::Queue& queue() override { return *queue_; }
  int predictions() const override { return network_.predictions(); }
  void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient, kernels::LossValue* value) override {
    value->sum = network_.train(parameters, inputs, labels, gradient) * network_.predictions();
  }
  void set_draws(std::uint64_t batches) override { network_.set_draws(batches); }
  std::size_t divided_bytes() const override { return sum_of(network_); }
  std::size_t threads() const override { return network_.parts(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) override {
    network_.on_each_thread(settle);
  }

 private:
  std::unique_ptr<kernels::Queue> queue_;
  Network network_;
};

class StreamedStep final : public StepNetwork {
 public:
  StreamedStep(const models::Plan& plan, const kernels::Backend& backend, int batch,
               const StagedOptions& options)
      : queue_(backend.make_queue()), network_(plan, backend, batch, options) {}

  kernels::Queue& queue() override { return *queue_; }
  int predictions() const override { return network_.predictions(); }
  void start_training(const float*, const float*, const std::int32_t*, float*, kernels::LossValue*) override {
    STARLING_CHECK(false);
  }
  void set_draws(std::uint64_t batches) override { network_.set_draws(batches); }
  StreamedNetwork* stream() override { return &network_; }
  std::size_t divided_bytes() const override { return sum_of(network_); }
  std::size_t threads() const override { return network_.parts(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) override {
    network_.on_each_thread(settle);
  }

 private:
  std::unique_ptr<kernels::Queue> queue_;
  StreamedNetwork network_;
};

struct Make {
  const models::Plan& plan;
  const kernels::Backend& backend;
  int batch;
  std::unique_ptr<StepNetwork> operator()(const models::NetworkOptions& options) const {
    return std::make_unique<WholeStep>(plan, backend, batch, options);
  }
  std::unique_ptr<StepNetwork> operator()(const StagedOptions& options) const {
    if (pipeline_traits(options.schedule).flushes)
      return std::make_unique<DividedStep<StagedNetwork, StagedOptions>>(plan, backend, batch, options);
    return std::make_unique<StreamedStep>(plan, backend, batch, options);
  }
  std::unique_ptr<StepNetwork> operator()(const SlicedOptions& options) const {
    return std::make_unique<DividedStep<SlicedNetwork, SlicedOptions>>(plan, backend, batch, options);
  }
};

}  // namespace

std::unique_ptr<StepNetwork> make_step_network(const models::Plan& plan, const kernels::Backend& backend,
                                               int batch, const NetworkForm& form) {
  return std::visit(Make{plan, backend, batch}, form);
}

}  // namespace starling::training
