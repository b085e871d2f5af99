#include "models/network.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/buffer.h"
#include "models/lowering.h"
#include "models/section.h"

namespace starling::models {
namespace {

double first_value(const Tensor& tensor, Random& draws) {
  switch (tensor.start) {
    case Tensor::Start::uniform:
      return draws.uniform(-tensor.bound, tensor.bound);
    case Tensor::Start::normal:
      return tensor.bound * draws.normal();
    case Tensor::Start::constant:
      break;
  }
  return tensor.bound;
}

// Calls write(offset, values) for all tensors, with the gaps after them, in small pieces.
template <class Write>
void initialize_each(const Plan& plan, const Random& random, const Write& write) {
  constexpr std::size_t kPiece = 1 << 14;
  const std::vector<Tensor>& tensors = plan.layout.tensors();
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const std::size_t room = plan.layout.room(i);
    Random draws = random.split(i);
    for (std::size_t begin = 0; begin < room; begin += kPiece) {
      values.assign(std::min(kPiece, room - begin), 0.0F);
      const std::size_t here = tensor.size - std::min(begin, tensor.size);
      for (float& value : std::span(values).first(std::min(here, values.size()))) {
        value = static_cast<float>(first_value(tensor, draws));
      }
      write(tensor.offset + begin, std::span<const float>(values));
    }
  }
}

}  // namespace

struct Network::Impl {
  int batch;
  int labels;  // of each sample
  bool train;
  const kernels::Backend& backend;
  std::unique_ptr<kernels::Queue> queue;
  Section section;  // all layers
  std::unique_ptr<kernels::Loss> loss;
  kernels::Staged<kernels::LossValue> loss_value;  // of train() and evaluate()

  Impl(const Plan& plan, const kernels::Backend& on, int batch_size, NetworkUse purpose,
       NetworkOptions options)
      : batch(batch_size),
        labels(plan.labels()),
        train(purpose == NetworkUse::train),
        backend(on),
        queue(on.make_queue()),
        section(whole(plan, lower(plan, options.seed), on, *queue, batch_size, purpose, options)),
        loss(on.softmax_cross_entropy(*queue, last())),
        loss_value(on.staging()) {
    STARLING_CHECK(last().shape.sample_size() == static_cast<std::size_t>(plan.classes));
  }

  static Section whole(const Plan& plan, const Lowered& lowered, const kernels::Backend& on,
                       kernels::Queue& queue, int batch_size, NetworkUse purpose, NetworkOptions options) {
    return {plan,
            lowered,
            on,
            queue,
            {.batch = batch_size,
             .purpose = purpose,
             .recompute = options.recompute,
             .begin = 0,
             .end = static_cast<int>(plan.layers.size()),
             .inputs = {batch_border(plan, lowered, on, batch_size)}}};
  }

  const kernels::Activation& last() const { return section.outputs().back().activation; }

  const float* forward(const float* parameters, const float* inputs) {
    const float* const all[] = {inputs};
    section.forward(parameters, all);
    return section.output(section.outputs().size() - 1, all);
  }
};

Network::Network(const Plan& plan, const kernels::Backend& backend, int batch, NetworkUse purpose,
                 NetworkOptions options)
    : impl_(std::make_unique<Impl>(plan, backend, batch, purpose, options)) {}
Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

int Network::batch() const { return impl_->batch; }
int Network::predictions() const { return impl_->batch * impl_->labels; }

kernels::Queue& Network::queue() { return *impl_->queue; }

void Network::start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                             float* gradient, kernels::LossValue* value) {
  STARLING_CHECK(impl_->train);
  const float* logits = impl_->forward(parameters, inputs);
  impl_->loss->train(logits, labels, impl_->section.output_gradient(0), value);
  const float* const all[] = {inputs};
  impl_->section.backward(parameters, all, gradient);
}

double Network::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient) {
  start_training(parameters, inputs, labels, gradient, impl_->loss_value.get());
  impl_->queue->wait();
  return impl_->loss_value->sum / predictions();
}

Network::Evaluation Network::evaluate(const float* parameters, const float* inputs,
                                      const std::int32_t* labels, int judged) {
  STARLING_CHECK(!impl_->train && judged >= 0 && judged <= predictions());
  const float* logits = impl_->forward(parameters, inputs);
  impl_->loss->evaluate(logits, labels, judged, impl_->loss_value.get());
  impl_->queue->wait();
  return {impl_->loss_value->sum, impl_->loss_value->correct, judged};
}

void Network::score(const float* parameters, const float* inputs, int count, std::span<float> logits) {
  const kernels::Activation& last = impl_->last();
  const std::size_t classes = last.shape.sample_size();
  STARLING_CHECK(!impl_->train && count >= 0 && count <= impl_->batch && impl_->backend.memory().on_host());
  STARLING_CHECK(logits.size() == static_cast<std::size_t>(count * impl_->labels) * classes);
  const float* stored = impl_->forward(parameters, inputs);
  std::vector<float> plain(last.shape.size());
  impl_->backend.unpack(*impl_->queue, last, stored, plain.data());
  impl_->queue->wait();
  std::copy_n(plain.begin(), logits.size(), logits.begin());
}

void Network::set_draws(std::uint64_t batches) { impl_->section.set_draws(batches); }

NetworkMemory Network::memory() const { return impl_->section.memory(); }

void initialize(const Plan& plan, Random random, std::span<float> out) {
  STARLING_CHECK(out.size() == plan.layout.arena_size());
  initialize_each(plan, random, [out](std::size_t offset, std::span<const float> values) {
    std::copy(values.begin(), values.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
  });
}

void initialize(const Plan& plan, Random random, Arena& arena) {
  STARLING_CHECK(arena.size() == plan.layout.arena_size());
  initialize_each(plan, random, [&arena](std::size_t offset, std::span<const float> values) {
    arena.write(offset, values);
  });
}

}  // namespace starling::models
