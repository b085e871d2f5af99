#include "models/section.h"

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "base/check.h"
#include "kernels/buffer.h"
#include "models/slots.h"

namespace starling::models {
namespace {

// The values between steps: first the inputs, then the output of each step.
struct Value {
  kernels::Activation activation;
  bool trained = false;  // depends on parameters, so its gradient is needed
  int last_reader = -1;  // the last step that reads it
  int slot = -1;         // of the activations; an input has none
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
  bool keeps_slot = false;  // dy's slot is in use afterwards
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

}  // namespace

struct Section::Impl {
  const kernels::Backend& backend;
  kernels::Queue& queue;
  SectionOptions options;
  bool train, recompute;
  int first = 0;  // the number of inputs, and of the first step's output
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<Segment> segments;  // several only if activations are computed again
  std::vector<int> done_with;     // for each layer of the plan the last one that its operation computes
  std::vector<Border> outputs;
  std::vector<int> output_values, output_gradients, input_gradients;  // values, and slots of gradients
  Slots activations, gradients;
  kernels::Buffer scratch;  // of all operations

  Impl(const Plan& plan, const Lowered& lowered, const kernels::Backend& on, kernels::Queue& in,
       const SectionOptions& given)
      : backend(on),
        queue(in),
        options(given),
        train(given.purpose == NetworkUse::train),
        recompute(train && given.recompute),
        done_with(plan.layers.size()) {
    STARLING_CHECK(options.batch > 0 && options.begin < options.end);
    build(lowered.nodes);
    find_segments();
    place_activations();
    if (train) place_gradients();
    activations.allocate(backend.memory());
    gradients.allocate(backend.memory());
    share_scratch();
  }

  using Inputs = std::span<const float* const>;

  Value& value(int number) { return values[static_cast<std::size_t>(number)]; }
  int last_step() const { return static_cast<int>(steps.size()) - 1; }

  // Building

  void build(const std::vector<Node>& nodes) {
    std::map<int, int> value_of;  // by layer
    for (const Border& input : options.inputs) {
      value_of[input.layer] = static_cast<int>(values.size());
      values.push_back({input.activation, input.trained});
    }
    first = static_cast<int>(values.size());
    for (int i = options.begin; i < options.end;) {
      const std::size_t first_step = steps.size();
      const Node& node = nodes[static_cast<std::size_t>(i)];
      const int covered = node.operation ? add_operation(nodes, i, value_of.at(node.from))
                                         : add_sum(nodes, i, value_of.at(node.from), value_of.at(node.other));
      const int last = i + covered - 1;
      for (int k = i; k <= last; ++k) {
        value_of[k] = static_cast<int>(values.size()) - 1;
        done_with[static_cast<std::size_t>(k)] = last;
      }
      for (std::size_t k = first_step; k < steps.size(); ++k) steps[k].layer = last;
      i += covered;
    }
    find_outputs(nodes, value_of);
  }

  // What later nodes read, in the order of the layers; of the last section what the last node yields.
  void find_outputs(const std::vector<Node>& nodes, const std::map<int, int>& value_of) {
    std::set<int> read;
    const int all = static_cast<int>(nodes.size());
    for (int i = options.end; i < all; ++i) {
      const Node& node = nodes[static_cast<std::size_t>(i)];
      for (const int layer : {node.from, node.operation ? node.from : node.other})
        if (layer < options.end) read.insert(layer);
    }
    if (options.end == all) read.insert(all - 1);
    for (const int layer : read) {
      Value& it = value(value_of.at(layer));
      it.last_reader = last_step() + 1;  // never released
      outputs.push_back({layer, it.activation, it.trained});
      output_values.push_back(value_of.at(layer));
    }
  }

  // Whether node i is the only reader of the node before it and reads nothing else.
  bool continues(const std::vector<Node>& nodes, int i) const {
    if (i >= options.end) return false;
    const Node& node = nodes[static_cast<std::size_t>(i)];
    return node.operation && node.from == i - 1 && nodes[static_cast<std::size_t>(i) - 1].readers == 1;
  }

  // Adds the operation of nodes[i] and of the following nodes that it covers, after changes of format that it
  // needs. Returns the number of nodes.
  int add_operation(const std::vector<Node>& nodes, int i, int from) {
    const auto operation = [&nodes](int k) { return *nodes[static_cast<std::size_t>(k)].operation; };
    std::vector<kernels::OperationSpec> rest{operation(i)};
    for (int k = i + 1; continues(nodes, k); ++k) rest.push_back(operation(k));
    for (;;) {
      const kernels::Passes passes{train, train && value(from).trained};
      Step step{backend.make(queue, rest, value(from).activation, passes), nullptr, from};
      const int covers = step.operation->covers();
      const auto covered = std::span(rest).first(static_cast<std::size_t>(covers));
      const bool trained = value(from).trained || std::any_of(covered.begin(), covered.end(), is_trained);
      from = add(std::move(step), trained);
      if (covers > 0) return covers;
    }
  }

  int add_sum(const std::vector<Node>& nodes, int i, int from, int other) {
    const bool relu = continues(nodes, i + 1) && std::holds_alternative<kernels::ReluSpec>(
                                                     *nodes[static_cast<std::size_t>(i) + 1].operation);
    Step step{nullptr, backend.make_sum(queue, value(from).activation, value(other).activation, relu), from,
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
      for (int number = k == 0 ? 0 : first - 1 + k; number < first + k; ++number)
        reach = std::max(reach, value(number).last_reader);
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
      piece += floats_after(k);
    }
    return result;
  }

  double floats_after(int step) const {
    return static_cast<double>(values[static_cast<std::size_t>(first + step)].activation.floats);
  }

  // The floats that the segments leave, and those inside the largest.
  double floats_kept(const std::vector<Segment>& candidate) const {
    double left = 0, inside = 0;
    for (const Segment& segment : candidate) {
      double floats = 0;
      for (int k = segment.begin; k < segment.end; ++k) {
        (k + 1 == segment.end ? left : floats) += floats_after(k);
      }
      inside = std::max(inside, floats);
    }
    return left + inside;
  }

  void place_activations() {
    for (const Segment& segment : segments) {
      for (int k = segment.begin; k < segment.end; ++k) {
        value(first + k).slot = activations.take(value(first + k).activation.floats);
        if (train) continue;
        // Without a backward pass values are released after their last reader.
        release_read_last_by(k);
      }
      if (!recompute) continue;
      for (int k = segment.begin; k + 1 < segment.end; ++k) activations.release(value(first + k).slot);
    }
  }

  void release_read_last_by(int step) {
    const Step& it = steps[static_cast<std::size_t>(step)];
    for (const int number : {it.from, it.other}) {
      if (number >= first && value(number).last_reader == step) activations.release(value(number).slot);
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
    for (const int number : output_values) {
      if (value(number).trained) slot_of(number) = gradients.take(value(number).activation.floats);
      output_gradients.push_back(slot_of(number));
    }
    for (int k = last_step(); k >= 0; --k) {
      Step& step = steps[static_cast<std::size_t>(k)];
      if (!step.backward) continue;
      step.dy = slot_of(first + k);
      STARLING_CHECK(step.dy >= 0);
      unwanted = -1;
      if (shares_gradient(step) && slot_of(step.from) < 0 && slot_of(step.other) < 0) {
        slot_of(step.from) = slot_of(step.other) = step.dfrom = step.dother = step.dy;
        step.keeps_slot = steps[static_cast<std::size_t>(k) - 1].keeps_slot = true;
      } else {
        // A sum passes its gradient to the first branch in place.
        const bool in_place = step.sum || (step.operation->works_in_place() && !step.keeps_slot);
        if (in_place && value(step.from).trained && slot_of(step.from) < 0) {
          slot_of(step.from) = step.dfrom = step.dy;
          step.keeps_slot = true;
        } else {
          write(step, step.from, step.dfrom, step.more_from);
        }
        if (step.sum) write(step, step.other, step.dother, step.more_other);
      }
      if (!step.keeps_slot) gradients.release(step.dy);
      for (const int done : {step.more_from, step.more_other, unwanted}) {
        if (done >= 0) gradients.release(done);
      }
    }
    input_gradients.assign(slot.begin(), slot.begin() + first);
  }

  // Whether both branches of a step, if it is a sum, can have its gradient in place: the next step of
  // backward() belongs to one of them and only reads it, and nothing else does.
  bool shares_gradient(const Step& step) const {
    const auto k = static_cast<std::size_t>(&step - steps.data());
    if (!step.sum || !step.sum->works_in_place() || k == 0 || step.from == step.other) return false;
    const Step& next = steps[k - 1];
    const int output = first + static_cast<int>(k) - 1;  // of the next one
    return (step.from == output || step.other == output) && next.operation && next.operation->keeps_dy() &&
           values[static_cast<std::size_t>(step.from)].trained &&
           values[static_cast<std::size_t>(step.other)].trained;
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
    const std::size_t shared = scratch.bytes() + queue.workspace_bytes();
    NetworkMemory memory{activations.bytes(), gradients.bytes(), shared, shared, {}};
    memory.layers.resize(done_with.size());
    std::vector<const Step*> owner(activations.count());
    const auto value_of = [&](const Step& step) -> const Value& {
      return values[static_cast<std::size_t>(first + (&step - steps.data()))];
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
    for (int layer = options.begin; layer < options.end; ++layer) {
      at(layer).counted_at = at(done_with[static_cast<std::size_t>(layer)]).counted_at;
    }
    return memory;
  }

  // Running

  const float* data(int number, Inputs inputs) {
    return number < first ? inputs[static_cast<std::size_t>(number)] : activations.data(value(number).slot);
  }

  void forward(const float* parameters, Inputs inputs, Segment range, bool again) {
    for (int k = range.begin; k < range.end; ++k) {
      Step& step = steps[static_cast<std::size_t>(k)];
      const float* x = data(step.from, inputs);
      float* y = activations.data(value(first + k).slot);
      if (step.sum) {
        step.sum->forward(x, data(step.other, inputs), y);
      } else if (again) {
        step.operation->forward_again(parameters, x, y);
      } else {
        step.operation->forward(parameters, x, y);
      }
    }
  }

  void backward(const float* parameters, Inputs inputs, float* gradient) {
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

  void backward(Step& step, int k, const float* parameters, Inputs inputs, float* gradient) {
    const auto target = [&](int where, int more) {
      const int slot = more >= 0 ? more : where;
      return slot >= 0 ? gradients.data(slot) : nullptr;
    };
    float* dy = gradients.data(step.dy);
    const float* y = data(first + k, inputs);
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
      backend.accumulate(queue, value(number).activation, gradients.data(where), gradients.data(more));
  }
};

Border batch_border(const Plan& plan, const Lowered& lowered, const kernels::Backend& backend, int batch) {
  const Shape& in = plan.spec.input;
  return {LayerInfo::kInput, backend.input({batch * plan.labels(), in.channels, in.height, in.width},
                                           lowered.input_height, lowered.input_width)};
}

Section::Section(const Plan& plan, const Lowered& lowered, const kernels::Backend& backend,
                 kernels::Queue& queue, const SectionOptions& options)
    : impl_(std::make_unique<Impl>(plan, lowered, backend, queue, options)) {}
Section::~Section() = default;
Section::Section(Section&&) noexcept = default;

const std::vector<Border>& Section::outputs() const { return impl_->outputs; }

void Section::forward(const float* parameters, std::span<const float* const> inputs) {
  impl_->forward(parameters, inputs, {0, impl_->last_step() + 1}, false);
}

void Section::forward_again(const float* parameters, std::span<const float* const> inputs) {
  impl_->forward(parameters, inputs, {0, impl_->last_step() + 1}, true);
}

const float* Section::output(std::size_t k, std::span<const float* const> inputs) const {
  return impl_->data(impl_->output_values[k], inputs);
}

float* Section::output_gradient(std::size_t k) {
  const int slot = impl_->output_gradients[k];
  return slot < 0 ? nullptr : impl_->gradients.data(slot);
}

void Section::backward(const float* parameters, std::span<const float* const> inputs, float* gradient) {
  STARLING_CHECK(impl_->train);
  impl_->backward(parameters, inputs, gradient);
}

const float* Section::input_gradient(std::size_t k) const {
  const int slot = impl_->input_gradients[k];
  return slot < 0 ? nullptr : impl_->gradients.data(slot);
}

void Section::set_draws(std::uint64_t batches) {
  for (Step& step : impl_->steps) {
    if (step.operation) step.operation->set_draws(batches);
  }
}

NetworkMemory Section::memory() const { return impl_->memory(); }

}  // namespace starling::models
