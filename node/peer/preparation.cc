#include "node/peer/preparation.h"

#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <spdlog/spdlog.h>

#include "datasets/text/parse.h"
#include "models/layout_text.h"
#include "node/keep/peer_cache.h"
#include "node/work/hogwild.h"
#include "training/exchange/make.h"
#include "training/replica/recipe.h"

namespace starling::node {
namespace {

// The result of work(). An allocation that fails ends the preparation, not the process.
template <class Work>
std::invoke_result_t<Work&> within_memory(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than any vector holds
  }
  return Error{"this machine has too little memory for the data, the parameters and the workers of the run"};
}

}  // namespace

void Preparation::load_own_data() {
  const PeerOptions& options = parts_.options;
  if (!options.data || parts_.attachment) return;
  parts_.builder.run([this, &options] {
    own_data_ = within_memory([&] { return datasets::load(*options.data, options.data_root); });
  });
}

void Preparation::build(std::optional<wire::Manifest> swarms, std::function<void(Status)> done) {
  parts_.builder.run(
      [this, swarms = std::move(swarms)] {
        return within_memory([&] {
          if (swarms) return with_state(build_of(*swarms));
          if (parts_.attachment) return with_state(make_outside());
          return with_state(make(training::load_data(parts_.experiment, parts_.options.data_root)));
        });
      },
      [this, done = std::move(done)](Built built) {
        if (!built) return done(built.error());
        parts_.replica = std::move(*built);
        done(Done{});
      });
}

wire::Manifest Preparation::own_manifest() const {
  const Replica& replica = *parts_.replica;
  auto manifest =
      training::manifest_of<wire::Manifest>(parts_.experiment, replica.plan.layout, replica.data.name);
  add_facts(manifest,
            {models::layout_text(replica.plan.layout), replica.epoch_samples, replica.data.tokenizer_text()});
  return manifest;
}

Preparation::Built Preparation::make(Result<datasets::DataPair> data, const PlanCheck& check) const {
  return make_replica(parts_.experiment, std::move(data), parts_.options.slot, parts_.own_order(), check);
}

Status Preparation::check_epoch(std::uint64_t samples) const {
  const training::Experiment& experiment = parts_.experiment;
  if (samples > 0 || (!experiment.end.epochs && !training::counts_epochs(experiment))) return Done{};
  return Error{
      "the run counts epochs, and neither the trainer nor the swarm says how many samples are in one"};
}

// What the trainer has declared, as a run.
Preparation::Built Preparation::make_outside() {
  const Declaration& declared = parts_.attachment->declaration();
  training::Experiment& experiment = parts_.experiment;
  experiment.model.name = declared.model;
  experiment.model.layers.clear();
  experiment.data.source = declared.data;
  experiment.training.batch_size = declared.batch;
  if (Status known = check_epoch(declared.epoch); !known) return known.error();
  auto replica = std::make_unique<Replica>(declared.layout(), parts_.attachment->region().arena(),
                                           declared.device, declared.data);
  replica->epoch_samples = declared.epoch;
  return replica;
}

Preparation::Built Preparation::build_outside(const wire::Manifest& manifest) {
  const Declaration& declared = parts_.attachment->declaration();
  parts_.experiment.data.source = manifest.data;
  parts_.experiment.training.batch_size = declared.batch;
  auto replica = std::make_unique<Replica>(declared.layout(), parts_.attachment->region().arena(),
                                           declared.device, manifest.data);
  const RunFacts facts = facts_of(manifest);
  const bool known = facts.epoch_samples > 0 && facts.epoch_samples <= kEpochSamplesMax;
  replica->epoch_samples = known ? facts.epoch_samples : declared.epoch;
  if (Status counted = check_epoch(replica->epoch_samples); !counted) return counted.error();
  if (replica->plan.layout.fingerprint() == manifest.fingerprint) return replica;
  const auto theirs = models::parse_layout(facts.tensors);
  const auto differs = theirs ? models::difference(*theirs, replica->plan.layout) : std::nullopt;
  return Error{"the swarm trains the model '" + manifest.model + "', and the trainer's differs" +
               (differs ? ": " + *differs : "")};
}

// A joiner's own data as the swarm's tokenizer divides them: read now, unless they are divided so already.
Result<datasets::DataPair> Preparation::joiners_data(const wire::Manifest& manifest) {
  const PeerOptions& options = parts_.options;
  datasets::text::AnyTokenizer tokenizer;
  if (const std::string text = facts_of(manifest).tokenizer; !text.empty()) {
    auto parsed = datasets::text::parse_tokenizer(text);
    if (!parsed) return Error{"the swarm's tokenizer: " + parsed.error().message};
    tokenizer = std::move(*parsed);
  }
  if (!options.data) return datasets::load_shared(manifest.data, options.data_root, tokenizer);
  const bool divided = own_data_ && (!own_data_->ok() || tokenizer == nullptr ||
                                     ((*own_data_)->tokenizer != nullptr &&
                                      (*own_data_)->tokenizer->fingerprint() == tokenizer->fingerprint()));
  if (divided) return std::move(*own_data_);
  own_data_.reset();
  return datasets::load(*options.data, options.data_root, tokenizer);
}

// On the builder's thread. The shared settings are the swarm's, the others the peer's own.
Preparation::Built Preparation::build_of(const wire::Manifest& manifest) {
  const PeerOptions& options = parts_.options;
  training::Experiment& experiment = parts_.experiment;
  if (options.expected_model && *options.expected_model != manifest.model) {
    return Error{"the swarm trains the model '" + manifest.model + "', not '" + *options.expected_model +
                 "' as --model says; leave --model out to train what the swarm trains"};
  }
  if (const Status applied = apply_settings(experiment, manifest); !applied) return applied.error();
  experiment.model.name = manifest.model;
  if (parts_.attachment) return build_outside(manifest);
  if (options.expected_model && options.experiment.model.layers != experiment.model.layers) {
    return Error{"the swarm's model '" + manifest.model +
                 "' has other layers than the one that --model names; leave "
                 "--model out to train what the swarm trains"};
  }
  experiment.seed = manifest.seed;
  experiment.data.source = options.data.value_or(manifest.data);
  const auto has_same_layout = [&manifest](const models::Plan& plan, const std::string& data) -> Status {
    if (plan.layout.fingerprint() == manifest.fingerprint) return Done{};
    return Error{"the model '" + manifest.model + "' for the data '" + data +
                 "' has another layout here than in the swarm (which trains on '" + manifest.data +
                 "'); --data must name a copy of the same data"};
  };
  return make(joiners_data(manifest), has_same_layout);
}

// On the builder's thread. Reads the checkpoint, or the file with the first parameters.
Preparation::Built Preparation::with_state(Built replica) {
  if (!replica) return replica;
  if (parts_.resumed) {
    if (const Status read = read_state(*parts_.resumed, (*replica)->plan.layout); !read)
      return Error{"--resume: " + read.error().message};
  } else if (parts_.experiment.model.init && parts_.options.join.empty()) {
    auto first = training::starting_parameters(parts_.experiment, (*replica)->plan);
    if (!first) return first.error();
    first_parameters_ = std::move(*first);
  }
  return replica;
}

Result<gossip::RunRules> Preparation::attach(const wire::Manifest& manifest, std::function<void()> stepped) {
  return within_memory([&] { return make_parts(manifest, std::move(stepped)); });
}

Result<gossip::RunRules> Preparation::make_parts(const wire::Manifest& manifest,
                                                 std::function<void()> stepped) {
  const training::Experiment& experiment = parts_.experiment;
  Replica& replica = *parts_.replica;
  auto rules = gossip::rules_from(manifest, replica.epoch_samples);
  if (!rules) return rules.error();
  const auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  const auto schedule =
      training::make_schedule(experiment, replica.epoch_samples, replica.data.train.context);
  if (!schedule) return schedule.error();
  schedule_ = *schedule;
  parts_.trainer = make_trainer(*rules, std::move(stepped));
  if (parts_.resumed) {
    for (const std::string& lost : parts_.trainer->restore(parts_.resumed->state))
      parts_.events.say(spdlog::level::warn, "checkpoint", parts_.resumed->path + ": " + lost);
  }
  parts_.mixer = training::make_mixer(replica.arena, *mix);
  parts_.exchanger->attach(replica.arena, manifest.fingerprint, *parts_.mixer);
  return std::move(*rules);
}

std::unique_ptr<Trainer> Preparation::make_trainer(const gossip::RunRules& rules,
                                                   std::function<void()> stepped) {
  const training::Experiment& experiment = parts_.experiment;
  const PeerOptions& options = parts_.options;
  Replica& replica = *parts_.replica;
  const std::uint64_t last_step = rules.end.steps.value_or(UINT64_MAX);
  const std::uint64_t wait_every = options.checkpoints.steps_between();
  if (parts_.attachment) {
    OutsideOptions outside{.pace = rules.pace,
                           .in_turn = traits(rules.rule).lets_wait(),
                           .last_step = last_step,
                           .wait_every = wait_every,
                           .grace = options.trainer.grace,
                           .schedule = schedule_};
    auto trainer = std::make_unique<OutsideTrainer>(
        *parts_.attachment, replica.arena, parts_.disk, parts_.io.get_executor(), outside,
        OutsideTrainer::Events{.stepped = std::move(stepped), .ended = leave_});
    parts_.outside = trainer.get();
    return trainer;
  }
  const std::uint32_t number = options.slot ? options.slot->first : 0;
  TrainerOptions training{.pace = experiment.training.pace,
                          .slowdowns = slowdowns_of(options.experiment, number, experiment.seed),
                          .average_every = experiment.training.average_every,
                          .last_step = last_step,
                          .in_turn = traits(rules.rule).lets_wait(),
                          .wait_every = wait_every,
                          .schedule = schedule_};
  return std::make_unique<HogwildTrainer>(std::move(replica.workers), replica.arena, std::move(training),
                                          std::move(stepped), replica.group.get());
}

void Preparation::take_copied_parameters() {
  copied_ = true;
  parts_.mixer->adopt();
}

void Preparation::initialize() {
  Replica& replica = *parts_.replica;
  if (copied_) {
    if (!parts_.resumed) {
      if (!parts_.outside && training::needs_warm_up(schedule_, parts_.core->view().swarm_samples,
                                                     parts_.experiment.training.batch_size))
        parts_.trainer->renew();
      return;
    }
    parts_.trainer->moved();
    parts_.resumed->state = {};
    return;
  }
  if (parts_.resumed) {
    replica.arena.write(0, parts_.resumed->state.parameters);
    parts_.resumed->state = {};
  } else if (!first_parameters_.empty()) {
    replica.arena.write(0, first_parameters_);
    first_parameters_ = {};
  } else if (parts_.attachment) {
    if (!parts_.attachment->declaration().view)
      replica.arena.write(0,
                          parts_.attachment->region().post());  // in view mode the trainer has written them
  } else {
    training::write_first_parameters(replica.plan, parts_.experiment.seed, replica.arena);
  }
  parts_.mixer->adopt();
}

void Preparation::follow_schedule() {
  if (!parts_.trainer) return;
  parts_.trainer->set_swarm_factor(training::swarm_step_factor(schedule_, parts_.core->view().swarm_samples,
                                                               parts_.experiment.training.batch_size,
                                                               parts_.replica->epoch_samples));
}

}  // namespace starling::node
