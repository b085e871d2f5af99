#include "training/learning/slices/sliced_network.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/buffer.h"
#include "kernels/plain.h"
#include "models/lowering.h"
#include "models/section.h"
#include "training/learning/slices/slice_barrier.h"
#include "training/learning/slices/slice_copy.h"
#include "training/learning/slices/slice_nodes.h"
#include "training/learning/slices/slice_plan.h"
#include "training/learning/stages/stage_threads.h"

namespace starling::training {
namespace {

// A partial gradient of a value, which a part that read it has computed.
struct PartialGradient {
  const float* from;  // on the host
  SliceCopy copy;     // to the channels of a part that computed it
};

// Channels that a part takes of an input.
struct TakenChannels {
  const float* from;  // a gathered value; null: the batch
  SliceCopy take;
  kernels::Buffer channels;    // of no size: the section reads all where they are
  kernels::Buffer on_host{};   // what a device copies to `channels`, unless those are all
  kernels::Buffer gradient{};  // on the host: the gradient of a gathered value that a device computed
};

// A part's share of a run. Pointers stay the same from batch to batch, but those to the batch.
struct SliceState {
  std::unique_ptr<models::Section> section;  // null if the part does not compute the run
  std::vector<const float*> inputs;          // that the section reads
  std::vector<TakenChannels> taken;          // by input
  SliceCopy gather;                          // to the gathered output
  bool plain = false;                        // the format of the output
  std::unique_ptr<kernels::Operation> exit;  // to plain, and back, if the output has another format
  kernels::Buffer converted;                 // plain, the output, later its gradient
  kernels::Buffer on_host{};                 // the same of a device, on the host
  std::vector<PartialGradient> partial;
  std::vector<const float*> direct;  // gradients from the part's own later runs, in the output's format
  std::vector<OwnParameters> own;    // if the section does not use the caller's
  kernels::Buffer own_parameters, own_gradient;
  kernels::Buffer repeated_gradient{};  // of a device, on the host
};

struct RunState {
  SliceRun run;
  kernels::Shape shape;  // of the output, with all channels
  std::vector<SliceState> parts;
  kernels::Buffer full;              // the gathered output, unless part 0 has it
  const float* gathered = nullptr;   // where it is
  bool trained = false;              // depends on parameters
  bool exchanges_gradients = false;  // others need what its backward pass computes
  bool repeated = false;
};

Channels all_of(int channels) { return {{0, channels}}; }

std::size_t plane_of(const kernels::Shape& shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

std::string counted(int number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

Status check_slices(const models::Plan& plan, int batch, const SlicedOptions& options) {
  if (batch < 1) return Error{"a batch needs at least 1 sample"};
  if (options.parts < 1) return Error{"a network needs at least 1 part"};
  const MostSlices most = most_slices(plan);
  if (options.parts <= static_cast<std::size_t>(most.parts)) return Done{};
  const std::string impossible = counted(static_cast<int>(options.parts), "part") + " are impossible: ";
  if (most.parts == 1) return Error{impossible + "no layer of " + plan.spec.name + " can be divided"};
  return Error{impossible + "the layers of " + plan.spec.name + " can be divided among at most " +
               counted(most.parts, "part") + ", as " +
               plan.layers[static_cast<std::size_t>(most.layer)].name + " can"};
}

struct SlicedNetwork::Impl {
  const models::Plan& plan;
  const kernels::Backend& backend;
  std::vector<const kernels::Backend*> backends;  // by part
  bool on_devices;
  std::size_t part_count;
  int batch;  // samples
  SlicePlan slices;
  models::Lowered lowered;
  std::vector<std::unique_ptr<kernels::Queue>> queues;  // by part
  std::vector<RunState> runs;
  std::unique_ptr<kernels::Loss> loss;
  kernels::Staged<kernels::LossValue> loss_value;
  kernels::Buffer loss_gradient;  // of the gathered logits
  bool repeats = false;           // some run
  SliceTraffic traffic;
  SliceBarrier barrier;

  // The batch under way.
  const float* parameters = nullptr;
  const float* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  float* gradient = nullptr;

  std::optional<StageThreads> threads;  // last: they use all others

  Impl(const models::Plan& of, const kernels::Backend& on, int samples, const SlicedOptions& options)
      : plan(of),
        backend(on),
        backends(options.backends),
        on_devices(!options.backends.empty() && !options.backends[0]->memory().on_host()),
        part_count(options.parts),
        batch(samples),
        slices(slice_layers(of, options.parts)),
        lowered(models::lower(of, options.seed)),
        loss_value(on.staging()),
        barrier(options.parts) {
    STARLING_CHECK(check_slices(of, samples, options).ok() && on.memory().on_host());
    if (backends.empty()) backends.assign(part_count, &backend);
    STARLING_CHECK(backends.size() == part_count);
    for (const kernels::Backend* it : backends) queues.push_back(it->make_queue());
    for (const SliceRun& run : slices.runs) build_run(run);
    const kernels::Shape& last = runs.back().shape;
    loss = backend.softmax_cross_entropy(kernels::host_queue(), backend.input(last, last.height, last.width));
    loss_gradient = kernels::Buffer(last.size(), backend.memory());
    connect_gradients();
    count_traffic();
    threads.emplace(
        part_count, [this](std::size_t p) { compute(p); }, [this] { barrier.stop(); });
  }

  // ---- building ----

  const std::vector<Channels>& channels_of(const SliceRun& run) const {
    return slices.layers[static_cast<std::size_t>(run.end) - 1].channels;
  }
  // The run that ends with a layer.
  RunState& run_of(int layer) {
    return *std::ranges::find_if(runs, [&](const RunState& it) { return it.run.end == layer + 1; });
  }

  void build_run(const SliceRun& run) {
    RunState& it = runs.emplace_back(RunState{run, {}, {}, {}});
    it.parts.resize(part_count);
    it.repeated = slices.layers[static_cast<std::size_t>(run.end) - 1].is_repeated();
    repeats |= it.repeated;
    for (std::size_t p = 0; p < part_count; ++p)
      if (!channels_of(run)[p].empty()) build_section(it, p);
    const int channels = plan.layers[static_cast<std::size_t>(run.end) - 1].output.channels;
    it.shape.channels = channels;
    const bool is_of_part_0 = channels_of(run)[0] == all_of(channels);
    for (const SliceInput& input : run.inputs)
      it.exchanges_gradients |= input.gathered && input.layer >= 0 && run_of(input.layer).trained;
    if (is_of_part_0 && it.parts[0].plain && !on_devices) it.gathered = it.parts[0].section->output(0, {});
    if (run.gathered && it.gathered == nullptr) {
      it.full = kernels::Buffer(it.shape.size(), backend.memory());
      it.gathered = it.full.data();
    }
    for (std::size_t p = 0; p < part_count; ++p) {
      SliceState& part = it.parts[p];
      if (!part.section || it.full.size() == 0 || (it.repeated && p > 0)) continue;
      part.gather = SliceCopy(channels_of(run)[p], all_of(channels), rows(it.shape), plane_of(it.shape));
      convert(part, p);
    }
  }

  static std::size_t rows(const kernels::Shape& shape) { return static_cast<std::size_t>(shape.batch); }

  void build_section(RunState& it, std::size_t p) {
    SliceState& part = it.parts[p];
    std::vector<models::Border> borders;
    for (std::size_t k = 0; k < it.run.inputs.size(); ++k)
      borders.push_back(it.run.inputs[k].layer < 0 ? batch_input(it, p, k) : earlier_output(it, p, k));
    SliceNodes nodes = lower_slice(plan, lowered, slices, it.run, p, on_devices);
    part.own = std::move(nodes.own);
    part.own_parameters = kernels::Buffer(nodes.own_floats, backends[p]->memory());
    part.own_gradient = kernels::Buffer(nodes.own_floats, backends[p]->memory());
    if (on_devices && it.repeated)
      part.repeated_gradient = kernels::Buffer(nodes.own_floats, backends[p]->staging());
    models::Plan layers{{}, {}, {}, plan.classes};
    layers.layers.assign(plan.layers.begin() + it.run.begin, plan.layers.begin() + it.run.end);
    part.section =
        std::make_unique<models::Section>(layers, nodes.lowered, *backends[p], *queues[p],
                                          models::SectionOptions{.batch = batch,
                                                                 .purpose = models::NetworkUse::train,
                                                                 .recompute = false,
                                                                 .begin = 0,
                                                                 .end = it.run.end - it.run.begin,
                                                                 .inputs = std::move(borders)});
    const models::Border& output = part.section->outputs()[0];
    part.plain = kernels::is_dense_plain(output.activation);
    it.shape = output.activation.shape;
    it.trained = output.trained;
  }

  // Input k of a run, which is the batch.
  models::Border batch_input(RunState& it, std::size_t p, std::size_t k) {
    models::Border whole = models::batch_border(plan, lowered, *backends[p], batch);
    const models::Shape& in = plan.spec.input;
    kernels::Shape stored{batch * plan.labels(), in.channels, in.height, in.width};
    take(it.parts[p], p, all_of(in.channels), it.run.inputs[k].needs[p], stored, nullptr);
    if (it.parts[p].taken[k].channels.size() == 0) return {slice_input_key(k), whole.activation, false};
    stored.channels = count_of(it.run.inputs[k].needs[p]);
    return {slice_input_key(k), backends[p]->input(stored, lowered.input_height, lowered.input_width), false};
  }

  // Input k of a run, which is the output of an earlier one.
  models::Border earlier_output(RunState& it, std::size_t p, std::size_t k) {
    SliceState& part = it.parts[p];
    const SliceInput& input = it.run.inputs[k];
    RunState& source = run_of(input.layer);
    if (!input.gathered) {
      const models::Section& own = *source.parts[p].section;
      part.inputs.push_back(own.output(0, {}));
      part.taken.push_back({part.inputs.back(), {}, {}});
      return {slice_input_key(k), own.outputs()[0].activation, source.trained};
    }
    take(part, p, all_of(source.shape.channels), input.needs[p], source.shape, source.gathered);
    kernels::Shape shape = source.shape;
    shape.channels = count_of(input.needs[p]);
    if (on_devices && source.trained)
      part.taken[k].gradient = kernels::Buffer(shape.size(), backends[p]->staging());
    return {slice_input_key(k), backends[p]->input(shape, shape.height, shape.width), source.trained};
  }

  // Adds an input: a value with all channels, or a copy of some.
  void take(SliceState& part, std::size_t p, const Channels& all, const Channels& needs,
            const kernels::Shape& shape, const float* from) {
    TakenChannels& it = part.taken.emplace_back(TakenChannels{from, {}, {}});
    if (needs != all || on_devices) {
      it.take = SliceCopy(all, needs, rows(shape), plane_of(shape));
      it.channels = kernels::Buffer(it.take.floats(), backends[p]->memory());
    }
    if (needs != all && on_devices) it.on_host = kernels::Buffer(it.take.floats(), backends[p]->staging());
    part.inputs.push_back(it.channels.size() > 0 ? it.channels.data() : from);
  }

  // Says from where each part of each run gets the gradient of its output: in the order of backward passes.
  void connect_gradients() {
    for (RunState& source : runs) {
      if (!source.trained) continue;
      if (&source == &runs.back())
        connect_partial(source, all_of(source.shape.channels), loss_gradient.data());
      for (std::size_t r = runs.size(); r-- > 0;) {
        for (std::size_t k = 0; k < runs[r].run.inputs.size(); ++k) {
          const SliceInput& input = runs[r].run.inputs[k];
          if (input.layer + 1 == source.run.end) connect_input(source, runs[r], k);
        }
      }
      for (std::size_t p = 0; p < part_count; ++p)
        if (!source.parts[p].partial.empty()) convert(source.parts[p], p);
    }
  }
  void connect_input(RunState& source, RunState& reader, std::size_t k) {
    const SliceInput& input = reader.run.inputs[k];
    for (std::size_t q = 0; q < part_count; ++q) {
      if (!reader.parts[q].section) continue;
      const kernels::Buffer& there = reader.parts[q].taken[k].gradient;
      const float* const from = there.size() > 0 ? there.data() : reader.parts[q].section->input_gradient(k);
      if (input.gathered) {
        connect_partial(source, input.needs[q], from);
      } else {
        source.parts[q].direct.push_back(from);
      }
    }
  }
  // A gradient of these channels is at `from`. What is repeated is gathered from part 0.
  void connect_partial(RunState& source, const Channels& needs, const float* from) {
    for (std::size_t p = 0; p < (source.repeated ? 1 : part_count); ++p) {
      const SliceCopy copy(needs, channels_of(source.run)[p], rows(source.shape), plane_of(source.shape));
      if (source.parts[p].section && copy.floats() > 0) source.parts[p].partial.push_back({from, copy});
    }
  }

  // Prepares an output for others.
  void convert(SliceState& part, std::size_t p) {
    if (on_devices) {
      const kernels::Activation& output = part.section->outputs()[0].activation;
      if (part.on_host.size() == 0)
        part.on_host = kernels::Buffer(output.shape.size(), backends[p]->staging());
      if (!part.plain && part.converted.size() == 0)
        part.converted = kernels::Buffer(output.shape.size(), backends[p]->memory());
      return;
    }
    if (part.plain || part.exit) return;
    part.exit = backend.make(*queues[p], {}, part.section->outputs()[0].activation, {});
    part.converted = kernels::Buffer(part.exit->output().floats, backend.memory());
  }

  void count_traffic() {
    for (const RunState& it : runs) {
      for (const SliceInput& input : it.run.inputs) {
        if (!input.gathered || input.layer < 0) continue;
        for (std::size_t q = 0; q < part_count; ++q) count_traffic_to(run_of(input.layer), q, input.needs[q]);
      }
    }
    count_traffic_to(runs.back(), 0, all_of(runs.back().shape.channels));
  }
  // What part q needs of a run's output and has not computed itself; as much goes back.
  void count_traffic_to(const RunState& source, std::size_t q, const Channels& needs) {
    const auto floats = [&](const Channels& channels) {
      return SliceCopy(needs, channels, rows(source.shape), plane_of(source.shape)).floats();
    };
    const std::size_t bytes =
        (floats(all_of(source.shape.channels)) - floats(channels_of(source.run)[q])) * sizeof(float);
    traffic.gathered += bytes;
    if (source.trained) traffic.reduced += bytes;
  }

  // ---- a batch ----

  void forward(RunState& it, std::size_t p) {
    SliceState& part = it.parts[p];
    if (!part.section) return;
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
      TakenChannels& taken = part.taken[k];
      const float* const from = taken.from == nullptr ? inputs : taken.from;
      if (taken.channels.size() > 0) {
        take_channels(taken, p, from);
      } else {
        part.inputs[k] = from;
      }
    }
    for (const OwnParameters& own : part.own)
      queues[p]->upload(parameters + own.arena, part.own_parameters.data() + own.own,
                        own.count * sizeof(float));
    part.section->forward(parameters_of(part), part.inputs);
    if (part.gather.floats() > 0) part.gather.copy(plain_output(part, p), it.full.data());
    queues[p]->wait();
  }

  // Those of the section: a part on a device always has its own.
  const float* parameters_of(const SliceState& part) const {
    return part.own.empty() && !on_devices ? parameters : part.own_parameters.data();
  }

  void take_channels(TakenChannels& taken, std::size_t p, const float* from) {
    if (!on_devices) return taken.take.copy(from, taken.channels.data());
    if (taken.on_host.size() > 0) {
      taken.take.copy(from, taken.on_host.data());
      from = taken.on_host.data();
    }
    queues[p]->upload(from, taken.channels.data(), taken.channels.bytes());
  }

  // On the host.
  const float* plain_output(SliceState& part, std::size_t p) {
    const float* y = part.section->output(0, part.inputs);
    if (!part.plain) {
      if (on_devices) {
        backends[p]->unpack(*queues[p], part.section->outputs()[0].activation, y, part.converted.data());
      } else {
        part.exit->forward(nullptr, y, part.converted.data());
      }
      y = part.converted.data();
    }
    if (!on_devices) return y;
    queues[p]->download(y, part.on_host.data(), part.on_host.bytes());
    queues[p]->wait();
    return part.on_host.data();
  }

  void backward(RunState& it, std::size_t p) {
    SliceState& part = it.parts[p];
    if (!part.section || !it.trained) return;
    add_gradients(part, p);
    if (part.own.empty() && !on_devices) return part.section->backward(parameters, part.inputs, gradient);
    kernels::Queue& queue = *queues[p];
    for (const OwnParameters& own : part.own)
      if (own.added)
        queue.upload(gradient + own.arena, part.own_gradient.data() + own.own, own.count * sizeof(float));
    part.section->backward(part.own_parameters.data(), part.inputs, part.own_gradient.data());
    for (std::size_t k = 0; k < part.taken.size(); ++k) {
      kernels::Buffer& to = part.taken[k].gradient;
      if (to.size() > 0) queue.download(part.section->input_gradient(k), to.data(), to.bytes());
    }
    if (part.repeated_gradient.size() > 0)
      queue.download(part.own_gradient.data(), part.repeated_gradient.data(), part.repeated_gradient.bytes());
    if (!it.repeated)
      for (const OwnParameters& own : part.own)
        queue.download(part.own_gradient.data() + own.own, gradient + own.arena, own.count * sizeof(float));
    queue.wait();
  }

  // The gradient of repeated layers' parameters is the sum over all parts.
  void sum_repeated() {
    for (const RunState& it : runs) {
      if (!it.repeated) continue;
      for (const SliceState& part : it.parts) {
        for (const OwnParameters& own : part.own) {
          const float* const from =
              (on_devices ? part.repeated_gradient : part.own_gradient).data() + own.own;
          float* const to = gradient + own.arena;
          const bool is_first = &part == it.parts.data();
          for (std::size_t i = 0; i < own.count; ++i) to[i] = is_first ? from[i] : to[i] + from[i];
        }
      }
    }
  }

  // Sums the gradients of a part's output.
  void add_gradients(SliceState& part, std::size_t p) {
    const kernels::Activation& activation = part.section->outputs()[0].activation;
    float* const sum = part.section->output_gradient(0);
    if (part.partial.empty()) {
      queues[p]->clear(sum, activation.floats * sizeof(float));
    } else {
      add_partial(part, p, activation, sum);
    }
    for (const float* const from : part.direct) backends[p]->accumulate(*queues[p], activation, sum, from);
  }

  // The sum of the partial gradients.
  void add_partial(SliceState& part, std::size_t p, const kernels::Activation& activation, float* sum) {
    float* const plain = on_devices ? part.on_host.data() : part.plain ? sum : part.converted.data();
    const bool begins_complete = part.partial[0].copy.is_complete();
    if (!begins_complete) std::fill_n(plain, activation.shape.size(), 0.0F);
    for (const PartialGradient& it : part.partial) {
      if (begins_complete && &it == part.partial.data()) {
        it.copy.copy(it.from, plain);
      } else {
        it.copy.add(it.from, plain);
      }
    }
    if (on_devices) {
      float* const there = part.plain ? sum : part.converted.data();
      queues[p]->upload(plain, there, part.on_host.bytes());
      if (!part.plain) backends[p]->pack(*queues[p], activation, there, sum);
    } else if (!part.plain) {
      part.exit->backward(nullptr, nullptr, nullptr, plain, sum, nullptr);
    }
  }

  void compute(std::size_t p) {
    for (RunState& it : runs) {
      forward(it, p);
      if (it.run.gathered && !barrier.wait()) return;
    }
    if (p == 0) loss->train(runs.back().gathered, labels, loss_gradient.data(), loss_value.get());
    if (!barrier.wait()) return;
    for (std::size_t r = runs.size(); r-- > 0;) {
      backward(runs[r], p);
      if (runs[r].exchanges_gradients && !barrier.wait()) return;
    }
    if (!repeats || !barrier.wait()) return;
    if (p == 0) sum_repeated();
  }

  double train(const float* x, const float* batch_inputs, const std::int32_t* batch_labels, float* out) {
    parameters = x;
    inputs = batch_inputs;
    labels = batch_labels;
    gradient = out;
    barrier.reset();
    threads->run();
    return loss_value->sum / (batch * plan.labels());
  }
};

SlicedNetwork::SlicedNetwork(const models::Plan& plan, const kernels::Backend& backend, int batch,
                             const SlicedOptions& options)
    : impl_(std::make_unique<Impl>(plan, backend, batch, options)) {}
SlicedNetwork::~SlicedNetwork() = default;

std::size_t SlicedNetwork::parts() const { return impl_->part_count; }
int SlicedNetwork::predictions() const { return impl_->batch * impl_->plan.labels(); }

double SlicedNetwork::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                            float* gradient) {
  return impl_->train(parameters, inputs, labels, gradient);
}

void SlicedNetwork::set_draws(std::uint64_t batches) {
  for (RunState& run : impl_->runs)
    for (SliceState& part : run.parts)
      if (part.section) part.section->set_draws(batches);
}

void SlicedNetwork::on_each_thread(const std::function<void(std::size_t)>& settle) {
  impl_->threads->run(settle);
}

SliceMemory SlicedNetwork::memory(std::size_t part) const {
  SliceMemory memory;
  for (const RunState& run : impl_->runs) {
    const SliceState& it = run.parts[part];
    if (it.section) memory.sections += it.section->memory().total();
    if (it.exit) memory.slices += it.exit->workspace_bytes();
    memory.slices += it.converted.bytes() + it.own_parameters.bytes() + it.own_gradient.bytes() +
                     it.on_host.bytes() + it.repeated_gradient.bytes();
    for (const TakenChannels& taken : it.taken)
      memory.slices += taken.channels.bytes() + taken.on_host.bytes() + taken.gradient.bytes();
    if (part == 0) memory.shared += run.full.bytes();
  }
  if (part == 0) memory.shared += impl_->loss_gradient.bytes();
  return memory;
}

SliceTraffic SlicedNetwork::traffic() const { return impl_->traffic; }

}  // namespace starling::training
