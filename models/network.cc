#include "models/network.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/buffer.h"
#include "models/lowering.h"
#include "models/slots.h"

namespace starling::models {
namespace {

// The values between steps: number 0 is the batch, number k + 1 the output of step k.
struct Value {
  kernels::Activation activation;
  bool trained = false;  // depends on parameters, so its gradient is needed
  int last_reader = -1;  // the last step that reads it
  int slot = -1;         // of the activations; the batch has none
};

// One operation, or one sum of two values.
struct Step {
  std::unique_ptr<kernels::Operation> operation;
  std::unique_ptr<kernels::Sum> sum;
  int from, other = -1;  // values
  int layer = -1;        // of the plan: the last one that it computes, or for which it changes a format

  // Backward: the slots of the gradients of its output and inputs. `more_*`: the value already has a
  // gradient, so this one is computed in another slot and added.
  bool backward = false;
  int dy = -1, dfrom = -1, dother = -1;
  int more_from = -1, more_other = -1;
};

bool is_trained(const kernels::OperationSpec& spec) {
  return std::visit(
      [](const auto& it) {
        return requires { it.weight; }
        || requires { it.scale; };
      },
      spec);
}

// Steps; only one value passes from one segment to the next.
struct Segment {
  int begin, end;
};

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
  bool train, recompute;
  const kernels::Backend& backend;
  std::unique_ptr<kernels::Queue> queue;
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<Segment> segments;  // several only if activations are computed again
  std::vector<int> done_with;     // for each layer of the plan the last one that its operation computes
  std::unique_ptr<kernels::Loss> loss;
  Slots activations, gradients;
  kernels::Buffer scratch;                         // of all operations
  kernels::Staged<kernels::LossValue> loss_value;  // of train() and evaluate()

  Impl(const Plan& plan, const kernels::Backend& on, int batch_size, Purpose purpose, NetworkOptions options)
      : batch(batch_size),
        labels(plan.labels()),
        train(purpose == Purpose::train),
        recompute(train && options.recompute),
        backend(on),
        queue(on.make_queue()),
        loss_value(on.staging()) {
    STARLING_CHECK(batch > 0);
    build(plan, lower(plan, options.seed));
    loss = backend.softmax_cross_entropy(*queue, values.back().activation);
    find_segments();
    place_activations();
    if (train) place_gradients();
    activations.allocate(backend.memory());
    gradients.allocate(backend.memory());
    share_scratch();
  }

  Value& value(int number) { return values[static_cast<std::size_t>(number)]; }
  int last_step() const { return static_cast<int>(steps.size()) - 1; }

  // Building

  void build(const Plan& plan, const Lowered& lowered) {
    const Shape& in = plan.spec.input;
    values.push_back({backend.input({batch * labels, in.channels, in.height, in.width}, lowered.input_height,
                                    lowered.input_width)});
    const std::vector<Node>& nodes = lowered.nodes;
    std::vector<int> value_of(nodes.size());
    const auto place = [&](int node) {
      return node == LayerInfo::kInput ? 0 : value_of[static_cast<std::size_t>(node)];
    };
    done_with.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size();) {
      const std::size_t first_step = steps.size();
      const auto covered = static_cast<std::size_t>(
          nodes[i].operation ? add_operation(nodes, i, place(nodes[i].from))
                             : add_sum(nodes, i, place(nodes[i].from), place(nodes[i].other)));
      const int last = static_cast<int>(i + covered) - 1;
      for (std::size_t k = 0; k < covered; ++k) {
        value_of[i + k] = static_cast<int>(values.size()) - 1;
        done_with[i + k] = last;
      }
      for (std::size_t k = first_step; k < steps.size(); ++k) steps[k].layer = last;
      i += covered;
    }
    STARLING_CHECK(values.back().activation.shape.sample_size() == static_cast<std::size_t>(plan.classes));
  }

  // Whether node i is the only reader of the node before it and reads nothing else.
  static bool continues(const std::vector<Node>& nodes, std::size_t i) {
    return i < nodes.size() && nodes[i].operation && nodes[i].from == static_cast<int>(i) - 1 &&
           nodes[i - 1].readers == 1;
  }

  // Adds the operation of nodes[i] and of the following nodes that it covers, after changes of format that it
  // needs. Returns the number of nodes.
  int add_operation(const std::vector<Node>& nodes, std::size_t i, int from) {
    std::vector<kernels::OperationSpec> rest{*nodes[i].operation};
    while (continues(nodes, i + rest.size())) rest.push_back(*nodes[i + rest.size()].operation);
    for (;;) {
      const kernels::Passes passes{train, train && value(from).trained};
      Step step{backend.make(*queue, rest, value(from).activation, passes), nullptr, from};
      const int covers = step.operation->covers();
      const auto covered = std::span(rest).first(static_cast<std::size_t>(covers));
      const bool trained = value(from).trained || std::any_of(covered.begin(), covered.end(), is_trained);
      from = add(std::move(step), trained);
      if (covers > 0) return covers;
    }
  }

  int add_sum(const std::vector<Node>& nodes, std::size_t i, int from, int other) {
    const bool relu =
        continues(nodes, i + 1) && std::holds_alternative<kernels::ReluSpec>(*nodes[i + 1].operation);
    Step step{nullptr, backend.make_sum(*queue, value(from).activation, value(other).activation, relu), from,
              other};
    add(std::move(step), value(from).trained || value(other).trained);
    return relu ? 2 : 1;
  }

  int add(Step step, bool trained) {
    const int number = static_cast<int>(steps.size());
    value(step.from).last_reader = number;
    if (step.sum) value(step.other).last_reader = number;
    values.push_back({step.sum ? step.sum->output() : step.operation->output(), trained});
    step.backward = train && trained;
    steps.push_back(std::move(step));
    return static_cast<int>(values.size()) - 1;
  }

  // Cuts the steps where no later step reads anything older than the last value, into the number of equal
  // pieces that minimizes the floats to keep (Chen et al., "Training deep nets with sublinear memory cost",
  // 2016).
  void find_segments() {
    const int count = last_step() + 1;
    segments = {{0, count}};
    if (!recompute) return;
    std::vector<int> cuts;  // a segment may begin here
    int reach = -1;         // the last reader of any value older than the last
    for (int k = 0; k + 1 < count; ++k) {
      reach = std::max(reach, value(k).last_reader);
      if (reach <= k) cuts.push_back(k + 1);
    }
    double best = -1;
    for (std::size_t pieces = 1; pieces <= cuts.size() + 1; ++pieces) {
      const std::vector<Segment> candidate = cut(cuts, pieces);
      const double cost = floats_kept(candidate);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      segments = candidate;
    }
  }

  // About `pieces` segments of equal size.
  std::vector<Segment> cut(const std::vector<int>& cuts, std::size_t pieces) const {
    double total = 0;
    for (const Value& it : values) total += static_cast<double>(it.activation.floats);
    std::vector<Segment> result{{0, last_step() + 1}};
    double piece = 0;
    for (int k = 0; k <= last_step(); ++k) {
      if (piece >= total / static_cast<double>(pieces) && std::binary_search(cuts.begin(), cuts.end(), k)) {
        result.back().end = k;
        result.push_back({k, last_step() + 1});
        piece = 0;
      }
      piece += static_cast<double>(values[static_cast<std::size_t>(k) + 1].activation.floats);
    }
    return result;
  }

  // The floats that the segments leave, and those inside the largest.
  double floats_kept(const std::vector<Segment>& candidate) const {
    double left = 0, inside = 0;
    for (const Segment& segment : candidate) {
      double floats = 0;
      for (int k = segment.begin; k < segment.end; ++k) {
        const auto size = static_cast<double>(values[static_cast<std::size_t>(k) + 1].activation.floats);
        (k + 1 == segment.end ? left : floats) += size;
      }
      inside = std::max(inside, floats);
    }
    return left + inside;
  }

  void place_activations() {
    for (const Segment& segment : segments) {
      for (int k = segment.begin; k < segment.end; ++k) {
        value(k + 1).slot = activations.take(value(k + 1).activation.floats);
        if (train) continue;
        // Without a backward pass values are released after their last reader.
        release_read_last_by(k);
      }
      if (!recompute) continue;
      for (int k = segment.begin; k + 1 < segment.end; ++k) activations.release(value(k + 1).slot);
    }
  }

  void release_read_last_by(int step) {
    const Step& it = steps[static_cast<std::size_t>(step)];
    for (const int number : {it.from, it.other}) {
      if (number > 0 && value(number).last_reader == step) activations.release(value(number).slot);
    }
  }

  // Visits the steps in the order of backward().
  void place_gradients() {
    std::vector<int> slot(values.size(), -1);
    int unwanted = -1;
    const auto slot_of = [&](int number) -> int& { return slot[static_cast<std::size_t>(number)]; };
    // Where a step writes the gradient of `number`: its slot, or another one that is then added to it. A sum
    // also writes gradients that are not needed.
    const auto write = [&](const Step& step, int number, int& where, int& more) {
      if (number < 0 || (!value(number).trained && !step.sum)) return;
      const std::size_t floats = value(number).activation.floats;
      if (slot_of(number) >= 0) {
        where = slot_of(number);
        more = gradients.take(floats);
      } else {
        where = gradients.take(floats);
        (value(number).trained ? slot_of(number) : unwanted) = where;
      }
    };
    slot.back() = gradients.take(values.back().activation.floats);
    for (int k = last_step(); k >= 0; --k) {
      Step& step = steps[static_cast<std::size_t>(k)];
      if (!step.backward) continue;
      step.dy = slot_of(k + 1);
      STARLING_CHECK(step.dy >= 0);
      unwanted = -1;
      bool passed_on = false;
      if (step.sum) {
        // A sum passes its gradient to the first branch in place.
        if (value(step.from).trained && slot_of(step.from) < 0) {
          slot_of(step.from) = step.dfrom = step.dy;
          passed_on = true;
        } else {
          write(step, step.from, step.dfrom, step.more_from);
        }
        write(step, step.other, step.dother, step.more_other);
      } else {
        write(step, step.from, step.dfrom, step.more_from);
      }
      if (!passed_on) gradients.release(step.dy);
      for (const int done : {step.more_from, step.more_other, unwanted}) {
        if (done >= 0) gradients.release(done);
      }
    }
  }

  void share_scratch() {
    std::size_t most = 0;
    for (const Step& step : steps) {
      if (step.operation) most = std::max(most, step.operation->scratch_floats());
    }
    scratch = kernels::Buffer(most, backend.memory());
    for (Step& step : steps) {
      if (step.operation) step.operation->set_scratch(scratch.data());
    }
  }

  // A slot is counted for the largest value in it, the first one if several are equal.
  NetworkMemory memory() const {
    const std::size_t shared = scratch.bytes() + queue->workspace_bytes();
    NetworkMemory memory{activations.bytes(), gradients.bytes(), shared, shared, {}};
    memory.layers.resize(done_with.size());
    std::vector<const Step*> owner(activations.count());
    const auto value_of = [&](const Step& step) -> const Value& {
      return values[static_cast<std::size_t>(&step - steps.data()) + 1];
    };
    for (const Step& step : steps) {
      const Step*& it = owner[static_cast<std::size_t>(value_of(step).slot)];
      if (it == nullptr || value_of(step).activation.floats > value_of(*it).activation.floats) it = &step;
    }
    const auto at = [&](int layer) -> LayerMemory& { return memory.layers[static_cast<std::size_t>(layer)]; };
    for (const Step& step : steps) {
      const std::size_t bytes = step.sum ? step.sum->workspace_bytes() : step.operation->workspace_bytes();
      at(step.layer).workspace_bytes += bytes;
      memory.workspace_bytes += bytes;
      const Step& owning = *owner[static_cast<std::size_t>(value_of(step).slot)];
      at(step.layer).counted_at = owning.layer;
      if (&owning == &step) {
        at(step.layer).activations_bytes += value_of(step).activation.floats * sizeof(float);
      }
    }
    for (int layer = 0; layer < static_cast<int>(done_with.size()); ++layer) {
      at(layer).counted_at = at(done_with[static_cast<std::size_t>(layer)]).counted_at;
    }
    return memory;
  }

  // Running

  const float* data(int number, const float* inputs) {
    return number == 0 ? inputs : activations.data(value(number).slot);
  }

  void forward(const float* parameters, const float* inputs, Segment range, bool again) {
    for (int k = range.begin; k < range.end; ++k) {
      Step& step = steps[static_cast<std::size_t>(k)];
      const float* x = data(step.from, inputs);
      float* y = activations.data(value(k + 1).slot);
      if (step.sum) {
        step.sum->forward(x, data(step.other, inputs), y);
      } else if (again) {
        step.operation->forward_again(parameters, x, y);
      } else {
        step.operation->forward(parameters, x, y);
      }
    }
  }

  const float* forward(const float* parameters, const float* inputs) {
    forward(parameters, inputs, {0, last_step() + 1}, false);
    return data(last_step() + 1, inputs);
  }

  // Begins with d(loss)/d(logits) in the last step's dy.
  void backward(const float* parameters, const float* inputs, float* gradient) {
    for (std::size_t i = segments.size(); i-- > 0;) {
      const Segment segment = segments[i];
      // Of all segments but the last, only the output was kept.
      if (i + 1 < segments.size()) forward(parameters, inputs, {segment.begin, segment.end - 1}, true);
      for (int k = segment.end - 1; k >= segment.begin; --k) {
        Step& step = steps[static_cast<std::size_t>(k)];
        if (step.backward) backward(step, k, parameters, inputs, gradient);
      }
    }
  }

  void backward(Step& step, int k, const float* parameters, const float* inputs, float* gradient) {
    const auto target = [&](int where, int more) {
      const int slot = more >= 0 ? more : where;
      return slot >= 0 ? gradients.data(slot) : nullptr;
    };
    float* dy = gradients.data(step.dy);
    const float* y = data(k + 1, inputs);
    float* dfrom = target(step.dfrom, step.more_from);
    if (step.sum) {
      step.sum->backward(y, dy, dfrom, target(step.dother, step.more_other));
    } else {
      step.operation->backward(parameters, data(step.from, inputs), y, dy, dfrom, gradient);
    }
    add_more(step.from, step.dfrom, step.more_from);
    add_more(step.other, step.dother, step.more_other);
  }

  void add_more(int number, int where, int more) {
    if (more >= 0)
      backend.accumulate(*queue, value(number).activation, gradients.data(where), gradients.data(more));
  }
};

Network::Network(const Plan& plan, const kernels::Backend& backend, int batch, Purpose purpose,
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
  impl_->loss->train(logits, labels, impl_->gradients.data(impl_->steps.back().dy), value);
  impl_->backward(parameters, inputs, gradient);
}

double Network::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient) {
  start_training(parameters, inputs, labels, gradient, impl_->loss_value.get());
  impl_->queue->wait();
  return impl_->loss_value->sum / predictions();
}

Network::Evaluation Network::evaluate(const float* parameters, const float* inputs,
                                      const std::int32_t* labels, int count) {
  STARLING_CHECK(!impl_->train && count >= 0 && count <= impl_->batch);
  const float* logits = impl_->forward(parameters, inputs);
  const int predictions = count * impl_->labels;
  impl_->loss->evaluate(logits, labels, predictions, impl_->loss_value.get());
  impl_->queue->wait();
  return {impl_->loss_value->sum, impl_->loss_value->correct, predictions};
}

void Network::score(const float* parameters, const float* inputs, int count, std::span<float> logits) {
  const kernels::Activation& last = impl_->values.back().activation;
  const std::size_t classes = last.shape.sample_size();
  STARLING_CHECK(!impl_->train && count >= 0 && count <= impl_->batch && impl_->backend.memory().on_host());
  STARLING_CHECK(logits.size() == static_cast<std::size_t>(count * impl_->labels) * classes);
  const float* stored = impl_->forward(parameters, inputs);
  std::vector<float> plain(last.shape.size());
  impl_->backend.unpack(*impl_->queue, last, stored, plain.data());
  impl_->queue->wait();
  std::copy_n(plain.begin(), logits.size(), logits.begin());
}

void Network::set_draws(std::uint64_t batches) {
  for (Step& step : impl_->steps) {
    if (step.operation) step.operation->set_draws(batches);
  }
}

NetworkMemory Network::memory() const { return impl_->memory(); }

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
