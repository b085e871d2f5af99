#include "training/planner/profiling/measured_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/buffer.h"
#include "models/lowering.h"
#include "models/network.h"
#include "models/section.h"

namespace starling::training {
namespace {

using models::Border;
using models::Section;

constexpr std::uint64_t kSeed = 1;
constexpr double kLeastSeconds = 1e-9;  // that a pass takes, where a clock is too coarse

// The median of the seconds that `work` takes. `prepare` runs before each repetition and is not timed.
double seconds_of(kernels::Queue& queue, Repetitions repetitions, const std::function<void()>& prepare,
                  const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<kernels::Queue::Recording> recording;
  std::vector<double> taken;
  double sum = 0;
  for (int i = -1; i < repetitions.most; ++i) {
    if (i >= repetitions.least && sum > repetitions.seconds) break;
    if (prepare) prepare();
    queue.wait();
    const auto begin = Clock::now();
    queue.run(recording, work);
    queue.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (i < 0) continue;  // it warms up
    sum += seconds;
    taken.push_back(seconds);
  }
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
  std::nth_element(taken.begin(), middle, taken.end());
  return std::max(*middle, kLeastSeconds);
}

// Parameters, a gradient and a batch of random samples in the back end's memory.
class Material {
 public:
  Material(const models::Plan& plan, const kernels::Backend& backend, kernels::Queue& queue, int batch)
      : parameters_(plan.layout.arena_size(), backend.memory()),
        gradient_(plan.layout.arena_size(), backend.memory()),
        inputs_(static_cast<std::size_t>(batch) * static_cast<std::size_t>(plan.spec.input.size()),
                backend.memory()),
        labels_(static_cast<std::size_t>(batch) * static_cast<std::size_t>(plan.labels()), backend.memory()) {
    Random random(kSeed);
    std::vector<float> values(parameters_.size());
    models::initialize(plan, random.split(0), values);
    queue.upload(values.data(), parameters_.data(), values.size() * sizeof(float));
    const auto classes = static_cast<std::uint64_t>(plan.classes);
    std::vector<float> inputs(inputs_.size());
    for (float& value : inputs) {
      value = static_cast<float>(plan.spec.input.tokens > 0 ? static_cast<double>(random.below(classes))
                                                            : random.uniform(-1, 1));
    }
    queue.upload(inputs.data(), inputs_.data(), inputs.size() * sizeof(float));
    std::vector<std::int32_t> labels(labels_.size());
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(classes));
    queue.upload(labels.data(), labels_.data(), labels.size() * sizeof(std::int32_t));
    queue.wait();
  }

  const float* parameters() const { return parameters_.data(); }
  float* gradient() { return gradient_.data(); }
  const float* inputs() const { return inputs_.data(); }
  const std::int32_t* labels() const { return reinterpret_cast<const std::int32_t*>(labels_.data()); }

 private:
  kernels::Buffer parameters_, gradient_, inputs_;
  kernels::Buffer labels_;  // of the size of floats
};

// One layer after another, each with the outputs of those before it.
class LayerByLayer {
 public:
  LayerByLayer(const models::Plan& plan, const kernels::Backend& backend, kernels::Queue& queue, int batch,
               Material& material, Repetitions repetitions)
      : plan_(plan),
        backend_(backend),
        queue_(queue),
        batch_(batch),
        material_(material),
        repetitions_(repetitions),
        lowered_(models::lower(plan, kSeed)),
        borders_{models::batch_border(plan, lowered_, backend, batch)},
        values_{{material.inputs(), nullptr}} {}

  ProfiledLayer next(std::size_t index) {
    const auto begin = static_cast<int>(index);
    auto section = std::make_shared<Section>(
        plan_, lowered_, backend_, queue_,
        models::SectionOptions{.batch = batch_, .begin = begin, .end = begin + 1, .inputs = borders_});
    std::vector<const float*> inputs;
    for (const Value& value : values_) inputs.push_back(value.data);
    const bool last = index + 1 == plan_.layers.size();
    ProfiledLayer layer{.name = plan_.layers[index].name};
    layer.forward = forward_seconds(*section, inputs, last);
    layer.backward = backward_seconds(*section, inputs);
    for (const Border& border : section->outputs())
      layer.activations += static_cast<double>(border.activation.shape.size() * sizeof(float));
    for (const std::size_t tensor : plan_.layers[index].tensors)
      layer.parameters += static_cast<double>(plan_.layout.tensors()[tensor].size * sizeof(float));
    pass_on(std::move(section), inputs);
    return layer;
  }

 private:
  // Where a value is, and the section that holds it; null for the batch.
  struct Value {
    const float* data;
    std::shared_ptr<Section> owner;
  };

  double forward_seconds(Section& section, const std::vector<const float*>& inputs, bool last) {
    std::unique_ptr<kernels::Loss> loss;
    kernels::Staged<kernels::LossValue> loss_value(backend_.staging());
    if (last) loss = backend_.softmax_cross_entropy(queue_, section.outputs().back().activation);
    return seconds_of(queue_, repetitions_, {}, [&] {
      section.forward(material_.parameters(), inputs);
      if (loss) {
        loss->train(section.output(0, inputs), material_.labels(), section.output_gradient(0),
                    loss_value.get());
      }
    });
  }

  // A backward pass overwrites the gradients that it reads, and without new ones the values could become so
  // small or large that a processor computes more slowly.
  double backward_seconds(Section& section, const std::vector<const float*>& inputs) {
    const auto fill = [&] {
      for (std::size_t k = 0; k < section.outputs().size(); ++k) {
        float* const gradient = section.output_gradient(k);
        const std::size_t floats = section.outputs()[k].activation.floats;
        if (gradient == nullptr) continue;
        if (noise_.size() < floats) {
          queue_.wait();  // for copies of the noise
          Random random(kSeed);
          noise_.resize(floats);
          for (float& value : noise_) value = static_cast<float>(random.uniform(-1e-3, 1e-3));
        }
        queue_.upload(noise_.data(), gradient, floats * sizeof(float));
      }
    };
    return seconds_of(queue_, repetitions_, fill,
                      [&] { section.backward(material_.parameters(), inputs, material_.gradient()); });
  }

  void pass_on(std::shared_ptr<Section> section, const std::vector<const float*>& inputs) {
    std::vector<Value> values;
    for (std::size_t k = 0; k < section->outputs().size(); ++k) {
      const float* const data = section->output(k, inputs);
      const auto passed = std::find(inputs.begin(), inputs.end(), data);
      const auto number = static_cast<std::size_t>(passed - inputs.begin());
      values.push_back({data, passed == inputs.end() ? section : values_[number].owner});
    }
    borders_ = section->outputs();
    values_ = std::move(values);
  }

  const models::Plan& plan_;
  const kernels::Backend& backend_;
  kernels::Queue& queue_;
  int batch_;
  Material& material_;
  Repetitions repetitions_;
  models::Lowered lowered_;
  std::vector<Border> borders_;  // what the next layer reads, or later ones do
  std::vector<Value> values_;    // for each border
  std::vector<float> noise_;
};

// Also sets what the layers keep.
double seconds_of_whole(const models::Plan& plan, const kernels::Backend& backend, int batch,
                        Material& material, Repetitions repetitions, std::vector<ProfiledLayer>& layers) {
  models::Network network(plan, backend, batch, models::NetworkUse::train, {.seed = kSeed});
  const models::NetworkMemory memory = network.memory();
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i].kept =
        static_cast<double>(memory.layers[i].activations_bytes + memory.layers[i].workspace_bytes);
  kernels::Staged<kernels::LossValue> loss(backend.staging());
  return seconds_of(network.queue(), repetitions, {}, [&] {
    network.start_training(material.parameters(), material.inputs(), material.labels(), material.gradient(),
                           loss.get());
  });
}

}  // namespace

MeasuredProfile measure_profile(const models::Plan& plan, const kernels::Backend& backend, int batch,
                                Repetitions repetitions) {
  STARLING_CHECK(batch > 0 && repetitions.least > 0 && repetitions.most >= repetitions.least);
  STARLING_CHECK(plan.layers.size() <= kMostProfiledLayers);
  const auto queue = backend.make_queue();
  Material material(plan, backend, *queue, batch);
  MeasuredProfile measured;
  std::vector<ProfiledLayer> layers;
  {
    LayerByLayer parts(plan, backend, *queue, batch, material, repetitions);
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      layers.push_back(parts.next(i));
      measured.by_layers += layers.back().forward + layers.back().backward;
    }
  }
  // The processor has warmed up by now.
  measured.whole = seconds_of_whole(plan, backend, batch, material, repetitions, layers);
  for (ProfiledLayer& layer : layers) {
    layer.forward *= measured.whole / measured.by_layers;
    layer.backward *= measured.whole / measured.by_layers;
  }
  measured.profile = chain_profile(std::move(layers));
  return measured;
}

}  // namespace starling::training
