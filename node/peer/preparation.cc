#include "node/peer/preparation.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/id_text.h"
#include "base/program.h"
#include "datasets/description.h"
#include "datasets/text/tokenizer.h"
#include "gossip/joining.h"
#include "models/layout_text.h"
#include "models/spec.h"
#include "node/work/hogwild.h"
#include "training/learning/data_facts.h"
#include "training/learning/recipe.h"
#include "training/mixing/make.h"
#include "training/mixing/values.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/files.h"

namespace starling::node {
namespace {

// The final parameters must not replace what was read for the run.
Status check_outputs(const std::string& export_to, const std::string& out) {
  for (const auto& [flag, path] : {std::pair("--export: ", export_to), {"--out: ", out}}) {
    if (path.ends_with('/')) continue;  // a new file in this folder
    if (Status kept = training::check_target(path); !kept) return Error{flag + kept.error().message};
  }
  return Done{};
}

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

Status check_epoch(const training::Experiment& experiment, std::uint64_t samples) {
  if (samples > 0 || (!experiment.end.epochs && !training::counts_epochs(experiment))) return Done{};
  return Error{
      "the run counts epochs, and neither the trainer nor the swarm says how many samples are in one"};
}

}  // namespace

void Preparation::load_copy() {
  const DaemonOptions& options = started_.options;
  if (!options.data || listening_.attachment() != nullptr) return;
  started_.builder.run([this, &options] {
    copy_ = within_memory([&] { return datasets::load(*options.data, options.data_root); });
  });
}

void Preparation::build(std::optional<wire::Manifest> swarms, std::function<void(Status)> done) {
  if (swarms) {
    const wire::Program program = own_program();
    started_.other_version = std::ranges::any_of(swarms->settings, [&](const wire::ManifestEntry& setting) {
      return !gossip::unknown_to(program, setting).empty();
    });  // build_of() says why
  }
  started_.builder.run(
      [this, swarms = std::move(swarms)] {
        return within_memory([&] { return with_state(swarms ? build_of(*swarms) : build_own()); });
      },
      [this, done = std::move(done)](Making built) {
        if (!built) return done(built.error());
        lives_.built = std::move(*built);
        done(Done{});
      });
}

wire::Manifest Preparation::own_manifest() const {
  const Replica& replica = *lives_.built->replica;
  auto manifest =
      training::manifest_of<wire::Manifest>(lives_.built->experiment, replica.plan.layout, replica.data.name);
  manifest.program = version();
  const auto described = replica.about_data.find(training::kDescriptionFact);
  add_facts(manifest,
            {models::layout_text(replica.plan.layout), replica.epoch_samples, replica.data.tokenizer_text(),
             described == replica.about_data.end() ? "" : described->second});
  return manifest;
}

Preparation::Making Preparation::make(training::Experiment experiment, Result<datasets::DataPair> data,
                                      const PlanCheck& check) const {
  auto replica = make_replica(experiment, std::move(data), started_.options.slot,
                              listening_.remembered().order_of(listening_.self().name), check);
  if (!replica) return replica.error();
  const std::string out = started_.process.saves() ? started_.process.file(listening_.self().name) : "";
  if (Status kept = check_outputs(started_.options.export_to, out); !kept) return kept.error();
  if (const std::string decided = datasets::decisions_text((*replica)->data); !decided.empty())
    spdlog::info("data {}", decided);
  if (const auto& own = experiment.data.own_data) {
    const datasets::Dataset& trained = (*replica)->data.trained();
    spdlog::info("data {}: this peer trains on all of it, {} samples of its own", datasets::data_name(*own),
                 trained.size());
    (*replica)->about_data[kOwnDataFact] = to_string(PeerId{datasets::fingerprint_of(trained)});
  }
  return Built{std::move(experiment), std::move(*replica)};
}

// The run that this peer begins.
Preparation::Making Preparation::build_own() const {
  if (listening_.attachment() != nullptr) return make_outside();
  const training::Experiment& experiment = listening_.remembered().experiment;
  const auto& resumed = listening_.remembered().resumed;
  return make(experiment, training::load_data(experiment, started_.options.data_root,
                                              resumed ? std::optional(resumed->path) : std::nullopt));
}

// What the trainer has declared, as a run.
Preparation::Making Preparation::make_outside() const {
  const Declaration& declared = listening_.attachment()->declaration();
  training::Experiment experiment = listening_.remembered().experiment;
  experiment.model.name = declared.model;
  experiment.model.layers.clear();
  experiment.data.source = declared.data;
  experiment.training.batch_size = declared.batch;
  if (Status known = check_epoch(experiment, declared.epoch); !known) return known.error();
  auto replica = std::make_unique<Replica>(declared.layout(), listening_.attachment()->region().arena(),
                                           declared.device, declared.data);
  replica->epoch_samples = declared.epoch;
  return Built{std::move(experiment), std::move(replica)};
}

Preparation::Making Preparation::build_outside(training::Experiment experiment,
                                               const wire::Manifest& manifest) const {
  const Declaration& declared = listening_.attachment()->declaration();
  experiment.data.source = manifest.data;
  experiment.training.batch_size = declared.batch;
  auto replica = std::make_unique<Replica>(declared.layout(), listening_.attachment()->region().arena(),
                                           declared.device, manifest.data);
  const RunFacts facts = facts_of(manifest);
  const bool known = facts.epoch_samples > 0 && facts.epoch_samples <= kEpochSamplesMax;
  replica->epoch_samples = known ? facts.epoch_samples : declared.epoch;
  if (Status counted = check_epoch(experiment, replica->epoch_samples); !counted) return counted.error();
  if (replica->plan.layout.fingerprint() == manifest.fingerprint)
    return Built{std::move(experiment), std::move(replica)};
  const auto theirs = models::parse_layout(facts.tensors);
  const auto differs = theirs ? models::difference(*theirs, replica->plan.layout) : std::nullopt;
  return Error{"the swarm trains the model '" + manifest.model + "', and the trainer's differs" +
               (differs ? ": " + *differs : "")};
}

// A joiner's copy of the swarm's data, or data of its own, with the swarm's tokenizer, normalization and
// classes: read now, unless what was read before fits.
Result<datasets::DataPair> Preparation::joiners_data(const training::Experiment& experiment,
                                                     const wire::Manifest& manifest, const RunFacts& facts) {
  const DaemonOptions& options = started_.options;
  training::Facts known;
  if (!facts.tokenizer.empty()) known[training::kTokenizerFact] = facts.tokenizer;
  if (!facts.description.empty()) known[training::kDescriptionFact] = facts.description;
  const auto given = training::given_by("the swarm", known);
  if (!given) return given.error();
  const auto fits = [&](const datasets::DataPair& own) {
    const bool divided = given->tokenizer == nullptr ||
                         (own.tokenizer != nullptr && own.tokenizer->text() == given->tokenizer->text());
    return divided && (given->of_model == nullptr || own.any().offsets == given->of_model->offsets);
  };
  Result<datasets::DataPair> data = Error{""};
  const auto& own = experiment.data.own_data;
  if (own && !options.data) {
    data = datasets::load(*own, options.data_root, *given);
    if (!data) return Error{"data.own_data: " + data.error().message};
    return data;
  }
  if (!options.data) {
    data = datasets::load_shared(manifest.data, options.data_root, *given);
  } else if (copy_ && (!copy_->ok() || fits(**copy_))) {
    data = std::move(*copy_);
    if (data && given->of_model != nullptr) {
      if (const Status adopted = datasets::adopt(*given->of_model, *data); !adopted) data = adopted.error();
    }
  } else {
    copy_.reset();
    data = datasets::load(*options.data, options.data_root, *given);
  }
  if (!data) return data;
  if (training::are_other_data(*given, *data)) {
    return Error{"data " + data->name +
                 ": these are other samples or labels than the swarm's, which trains on '" + manifest.data +
                 "'; --data must name a copy of them, or --own-data data of this peer's own"};
  }
  if (const Status added = training::add_own_data(experiment, options.data_root, *data); !added)
    return added.error();
  return data;
}

// The shared settings are the swarm's, the others the peer's own.
Preparation::Making Preparation::build_of(const wire::Manifest& manifest) {
  const DaemonOptions& options = started_.options;
  training::Experiment experiment = listening_.remembered().experiment;
  if (options.expected_model && *options.expected_model != manifest.model) {
    return Error{"the swarm trains the model '" + manifest.model + "', not '" + *options.expected_model +
                 "' as --model says; leave --model out to train what the swarm trains"};
  }
  if (const Status applied = apply_settings(experiment, manifest); !applied) return applied.error();
  experiment.model.name = manifest.model;
  if (listening_.attachment() != nullptr) return build_outside(std::move(experiment), manifest);
  if (experiment.model.layers.empty() &&
      std::ranges::find(models::model_names(), manifest.model) == models::model_names().end()) {
    return Error{
        "the swarm trains the model '" + manifest.model +
        "' of another program: join with starling.gossip(join=...) in that program, or with --trainer"};
  }
  if (options.expected_model && options.experiment.model.layers != experiment.model.layers) {
    return Error{"the swarm's model '" + manifest.model +
                 "' has other layers than the one that --model names; leave "
                 "--model out to train what the swarm trains"};
  }
  experiment.seed = manifest.seed;
  experiment.data.source = options.data ? *options.data : experiment.data.own_data.value_or(manifest.data);
  const auto has_same_layout = [&manifest](const models::Plan& plan, const std::string& data) -> Status {
    if (plan.layout.fingerprint() == manifest.fingerprint) return Done{};
    return Error{"the model '" + manifest.model + "' for the data '" + data +
                 "' has another layout here than in the swarm (which trains on '" + manifest.data +
                 "'); --data must name a copy of the same data"};
  };
  const RunFacts facts = facts_of(manifest);
  auto data = joiners_data(experiment, manifest, facts);
  auto made = make(std::move(experiment), std::move(data), has_same_layout);
  if (made && facts.epoch_samples > 0 && facts.epoch_samples <= kEpochSamplesMax)
    made->replica->epoch_samples = facts.epoch_samples;
  return made;
}

// Reads the checkpoint, or the file with the first parameters.
Preparation::Making Preparation::with_state(Making built) {
  if (!built) return built;
  auto& resumed = listening_.remembered().resumed;
  if (resumed) {
    if (const Status read = read_state(*resumed, built->replica->plan.layout); !read)
      return Error{"--resume: " + read.error().message};
  } else if (built->experiment.model.init && started_.options.join.empty()) {
    auto first = training::starting_parameters(built->experiment, built->replica->plan);
    if (!first) return first.error();
    if (!first->note.empty()) spdlog::warn("{}", first->note);
    built->first_parameters = std::move(first->values);
  }
  return built;
}

Result<gossip::RunRules> Preparation::attach(std::function<void()> stepped) {
  return within_memory([&] { return make_parts(std::move(stepped)); });
}

Result<gossip::RunRules> Preparation::make_parts(std::function<void()> stepped) {
  const wire::Manifest& manifest = lives_.running->manifest;
  const training::Experiment& experiment = lives_.built->experiment;
  Replica& replica = *lives_.built->replica;
  auto rules = gossip::rules_from(manifest, replica.epoch_samples);
  if (!rules) return rules.error();
  const auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  const auto schedule =
      training::make_schedule(experiment, replica.epoch_samples, replica.data.train.context);
  if (!schedule) return schedule.error();
  std::unique_ptr<Trainer> trainer;
  OutsideTrainer* outside = nullptr;
  if (listening_.attachment() != nullptr) {
    auto made = make_outside_trainer(*rules, *schedule, std::move(stepped));
    outside = made.get();
    trainer = std::move(made);
  } else {
    trainer = make_workers(*rules, *schedule, std::move(stepped));
  }
  if (const auto& resumed = listening_.remembered().resumed) {
    std::vector<std::string> lost = trainer->restore(resumed->state);
    const auto own = replica.about_data.find(kOwnDataFact);
    if (own != replica.about_data.end() && !resumed->own_data.empty() && own->second != resumed->own_data)
      lost.push_back("this peer's own data have changed since");
    for (const std::string& each : lost)
      started_.events.say(spdlog::level::warn, "checkpoint", resumed->path + ": " + each);
  } else if (const auto& earlier = listening_.remembered().earlier; earlier.steps > 0) {
    training::PeerState made;
    made.steps = earlier.steps;
    made.samples = earlier.samples;
    trainer->restore(made);
  }
  lives_.equipped.emplace(
      Equipped{training::make_mixer(replica.arena, *mix), std::move(trainer), outside, *schedule});
  listening_.exchanger().attach(replica.arena, manifest.fingerprint, *lives_.equipped->mixer,
                                trainer_state());
  return std::move(*rules);
}

// What newcomers receive from the trainer beside the parameters.
TrainerState Preparation::trainer_state() const {
  Attachment* const attachment = listening_.attachment();
  if (attachment == nullptr || attachment->declaration().states.empty()) return {};
  return {.fingerprint = attachment->declaration().state_fingerprint(),
          .given = attachment->region().state_given(),
          .received = attachment->region().state_received(),
          .ask = [attachment] { return attachment->ask_for_state(); },
          .is_answered = [attachment] { return attachment->state_is_given(); },
          .arrived = [attachment](bool with_state) { attachment->copied(with_state); }};
}

std::unique_ptr<OutsideTrainer> Preparation::make_outside_trainer(const gossip::RunRules& rules,
                                                                  const training::RateSchedule& schedule,
                                                                  std::function<void()> stepped) {
  const DaemonOptions& options = started_.options;
  OutsideOptions outside{.pace = rules.pace,
                         .in_turn = traits(rules.rule).lets_wait(),
                         .last_step = rules.end.steps.value_or(UINT64_MAX),
                         .wait_every = options.checkpoints.steps_between(),
                         .grace = options.trainer.grace,
                         .schedule = schedule};
  return std::make_unique<OutsideTrainer>(
      *listening_.attachment(), lives_.built->replica->arena, started_.disk, started_.io.get_executor(),
      outside, OutsideTrainer::Events{.stepped = std::move(stepped), .ended = leave_});
}

std::unique_ptr<Trainer> Preparation::make_workers(const gossip::RunRules& rules,
                                                   const training::RateSchedule& schedule,
                                                   std::function<void()> stepped) {
  const training::Experiment& experiment = lives_.built->experiment;
  const DaemonOptions& options = started_.options;
  Replica& replica = *lives_.built->replica;
  const std::uint32_t number = options.slot ? options.slot->first : 0;
  TrainerOptions training{.pace = experiment.training.pace,
                          .slowdowns = slowdowns_of(options.experiment, number, experiment.seed),
                          .average_every = experiment.training.average_every,
                          .last_step = rules.end.steps.value_or(UINT64_MAX),
                          .in_turn = traits(rules.rule).lets_wait(),
                          .wait_every = options.checkpoints.steps_between(),
                          .schedule = schedule};
  return std::make_unique<HogwildTrainer>(std::move(replica.workers), replica.arena, std::move(training),
                                          std::move(stepped), replica.group.get());
}

void Preparation::take_copied_parameters() {
  lives_.equipped->copied = true;
  lives_.equipped->mixer->adopt();
}

void Preparation::initialize() {
  if (std::exchange(initialized_, true)) return;
  Built& built = *lives_.built;
  Equipped& equipped = *lives_.equipped;
  auto& resumed = listening_.remembered().resumed;
  if (equipped.copied) {
    if (!resumed) {
      if (equipped.outside == nullptr &&
          training::needs_warm_up(equipped.schedule, lives_.running->core.view().swarm_samples,
                                  built.experiment.training.batch_size))
        equipped.trainer->renew();
      return;
    }
    equipped.trainer->moved();
    resumed->state = {};
    return;
  }
  if (resumed) {
    built.replica->arena.write(0, resumed->state.parameters);
    resumed->state = {};
  } else if (!built.first_parameters.empty()) {
    built.replica->arena.write(0, built.first_parameters);
    built.first_parameters = {};
  } else if (Attachment* const attachment = listening_.attachment()) {
    if (!attachment->declaration().view)  // in view mode the trainer has written them
      built.replica->arena.write(0, attachment->region().post());
  } else {
    training::write_first_parameters(built.replica->plan, built.experiment.seed, built.replica->arena);
  }
  equipped.mixer->adopt();
}

std::string Preparation::unacceptable_tensor() const {
  const Replica& replica = *lives_.built->replica;
  std::vector<float> values(replica.arena.size());
  replica.arena.read(0, values);
  auto found = training::unacceptable_tensor(replica.plan.layout, values);
  Attachment* const attachment = listening_.attachment();
  if (found.empty() && attachment != nullptr && !attachment->declaration().view)
    found = training::unacceptable_tensor(replica.plan.layout, attachment->region().post());
  return found;
}

void Preparation::follow_schedule() {
  if (!lives_.equipped) return;
  const Equipped& equipped = *lives_.equipped;
  equipped.trainer->set_swarm_factor(training::swarm_step_factor(
      equipped.schedule, lives_.running->core.view().swarm_samples,
      lives_.built->experiment.training.batch_size, lives_.built->replica->epoch_samples));
}

}  // namespace starling::node
