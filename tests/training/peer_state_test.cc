// A peer's training state, saved in a file and resumed bit by bit.
#include "training/runs/records/peer_state.h"
#include "kernels/by_name/backends.h"

#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/text.h"
#include "datasets/glyphs.h"
#include "tests/catch.h"
#include "tests/kernels/gpu.h"
#include "tests/seeds.h"
#include "tests/training/temporary_folder.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {
namespace {

// The model and data. The batch size does not divide the 90 samples, so that epochs end inside batches.
Experiment small_experiment() {
  Experiment experiment;
  experiment.model.name = "mlp";
  experiment.training.batch_size = 16;
  experiment.optimizer.learning_rate = 0.05;
  experiment.training.device = "cpu";
  return experiment;
}

// The workers of a peer on one arena; they make their steps in turn.
class Life {
 public:
  Life(const Experiment& experiment, const datasets::DataPair& data, const kernels::Backend& backend)
      : plan_(std::move(*make_plan(experiment, data.train))),
        arena_(plan_.layout.arena_size(), backend),
        schedule_(std::move(*make_schedule(experiment, data.train.size()))) {
    workers_ = std::move(*make_workers(experiment, plan_, backend, data.train, 3, 0));
    write_first_parameters(plan_, experiment.seed, arena_);
  }

  void step(std::size_t times) {
    for (; times > 0; --times, ++steps_) {
      Worker& worker = *workers_[steps_ % workers_.size()];
      worker.set_rate(
          [this] { return own_factor(schedule_, steps_ + 1) / static_cast<double>(1 + steps_ % 3); });
      worker.feed(arena_);
      worker.land();
      worker.wait();  // a device applies it asynchronously
      if (steps_ % 5 == 4) mix();
    }
  }
  // Begins a step that will be discarded.
  void begin_step() { workers_[steps_ % workers_.size()]->feed(arena_); }

  PeerState save() {
    PeerState state;
    state.parameters = parameters();
    for (auto& worker : workers_) state.workers.push_back(worker->save(arena_));
    state.steps = steps_;
    state.samples = steps_ * 16;
    state.loss = 1.0 / 3;
    return state;
  }
  void restore(const PeerState& state) {
    REQUIRE(state.workers.size() == workers_.size());
    arena_.write(0, state.parameters);
    for (std::size_t k = 0; k < workers_.size(); ++k) {
      REQUIRE(workers_[k]->restore_cursor(state.workers[k]).ok());
      REQUIRE(workers_[k]->restore_optimizer(state.workers[k], arena_).ok());
    }
    steps_ = state.steps;
  }

  std::vector<float> parameters() {
    std::vector<float> x(arena_.size());
    arena_.wait();
    arena_.read(0, x);
    return x;
  }
  const models::Layout& layout() const { return plan_.layout; }
  Worker& worker(std::size_t k) { return *workers_[k]; }
  const models::Arena& arena() const { return arena_; }

 private:
  // Changes the replica other than by steps, like an exchange.
  void mix() {
    const std::vector<float> own = parameters();
    std::vector<float> theirs;
    for (const float x : own) theirs.push_back(x == 0 ? 0 : 0.01F);  // gaps stay zero
    arena_.mix(0, theirs, own, 0.1F);
    arena_.wait();
    arena_.count_mix();
  }

  models::Plan plan_;
  models::Arena arena_;
  RateSchedule schedule_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t steps_ = 0;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr const char* kDropping =
    R"([{ type = "linear", features = 24 }, "relu", { type = "dropout", rate = 0.3 }, "linear"])";

struct Kind {
  const char* name;
  std::function<void(Experiment&)> set;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"sgd", [](Experiment&) {}},
      {"nesterov and decay",
       [](Experiment& e) { e.optimizer.nesterov = true, e.optimizer.weight_decay = 1e-3; }},
      {"adamw",
       [](Experiment& e) {
         e.optimizer.name = "adamw", e.optimizer.learning_rate = 0.002, e.optimizer.weight_decay = 0.01;
       }},
      {"adamw, clipped, in its warm-up",
       [](Experiment& e) {
         e.optimizer.name = "adamw", e.optimizer.weight_decay = 0.1, e.optimizer.clip_norm = 0.5,
         e.schedule.warmup = {20, Warmup::Unit::steps};
       }},
      {"quasi-global momentum", [](Experiment& e) { e.optimizer.quasi_global_momentum = true; }},
      {"crops and flips", [](Experiment& e) { e.training.crop = 2, e.training.flip = true; }},
      {"three workers", [](Experiment& e) { e.training.workers = 3; }},
      {"everything",
       [](Experiment& e) {
         e.training.workers = 2, e.training.crop = 1, e.training.flip = true,
         e.optimizer.quasi_global_momentum = true, e.optimizer.weight_decay = 1e-4;
       }},
  };
  return all;
}

std::unique_ptr<kernels::Backend> cpu() { return std::move(*kernels::make_backend("cpu")); }

PeerState through_a_file(const PeerState& state, const models::Layout& layout) {
  const TemporaryFolder folder;
  const std::string path = folder.file("p.12.safetensors");
  REQUIRE(write_peer_state(path, layout, state, {{"model", "mlp"}}).ok());
  auto saved = read_peer_state(path, layout);
  if (!saved) FAIL(saved.error().message);
  CHECK(saved->facts.at("model") == "mlp");
  CHECK(saved->state.steps == state.steps);
  CHECK(saved->state.samples == state.samples);
  CHECK(saved->state.loss == state.loss);
  CHECK(saved->state.workers == state.workers);
  return std::move(saved->state);
}

}  // namespace

TEST_CASE("a worker that resumes from another worker's file continues identically, bit by bit") {
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    Experiment experiment = small_experiment();
    kind.set(experiment);
    for (const std::size_t before : {0, 1, 7, 12}) {
      INFO(before);
      Life whole(experiment, data, *backend), first(experiment, data, *backend),
          second(experiment, data, *backend);
      whole.step(before + 25);
      first.step(before);
      const PeerState state = through_a_file(first.save(), first.layout());
      second.step(4);  // some other state before
      second.restore(state);
      second.step(25);
      REQUIRE(same_bits(second.parameters(), whole.parameters()));
      REQUIRE(second.save().workers == whole.save().workers);
    }
  }
}

TEST_CASE("a step that was computed and discarded leaves no trace: its samples come again") {
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  Experiment experiment = small_experiment();
  experiment.training.crop = 2;
  experiment.training.flip = true;
  for (std::size_t before = 0; before < 12; ++before) {  // with and without the end of an epoch in that step
    INFO(before);
    Life whole(experiment, data, *backend), first(experiment, data, *backend),
        second(experiment, data, *backend);
    first.step(before);
    const PeerState at_rest = first.save();
    first.begin_step();
    REQUIRE(first.save().workers == at_rest.workers);
    second.restore(through_a_file(first.save(), first.layout()));
    second.step(9);
    whole.step(before + 9);
    REQUIRE(same_bits(second.parameters(), whole.parameters()));
  }
}

TEST_CASE("dropout also continues identically") {
  const auto data = datasets::make_glyphs(1, 90, 10);
  Experiment experiment = small_experiment();
  experiment.model.name = "dropping";
  experiment.model.layers = kDropping;
  for (const char* name : {"reference", "cpu"}) {
    INFO(name);
    const auto backend = std::move(*kernels::make_backend(name));
    Life whole(experiment, data, *backend), first(experiment, data, *backend),
        second(experiment, data, *backend);
    whole.step(20);
    first.step(8);
    first.begin_step();
    second.step(3);
    second.restore(through_a_file(first.save(), first.layout()));
    second.step(12);
    REQUIRE(same_bits(second.parameters(), whole.parameters()));
  }
}

TEST_CASE("a device's worker also continues identically, although its batches are chosen ahead", "[gpu]") {
  const auto backend = kernels::gpu_backend();
  if (!backend) return;
  const auto data = datasets::make_glyphs(1, 90, 10);
  const std::size_t before = kSanitized ? 2 : 8, after = kSanitized ? 3 : 10;
  for (const char* kind : {"sgd", "adamw", "adamw, clipped, in its warm-up", "everything", "dropping"}) {
    INFO(kind);
    if (kSanitized && std::string(kind) != "everything") continue;
    Experiment experiment = small_experiment();
    for (const Kind& it : kinds())
      if (std::string(kind) == it.name) it.set(experiment);
    if (std::string(kind) == "dropping") {
      experiment.model.name = "dropping";
      experiment.model.layers = kDropping;
    }
    Life whole(experiment, data, *backend), first(experiment, data, *backend),
        second(experiment, data, *backend);
    whole.step(before + after);
    first.step(before);
    first.begin_step();
    second.step(kSanitized ? 1 : 3);  // some other state before
    second.restore(through_a_file(first.save(), first.layout()));
    second.step(after);
    REQUIRE(same_bits(second.parameters(), whole.parameters()));
  }
}

TEST_CASE("a state of another shard or another optimizer is rejected, and the worker stays unchanged") {
  const auto data = datasets::make_glyphs(1, 90, 10), more = datasets::make_glyphs(1, 91, 10);
  const auto backend = cpu();
  Experiment experiment = small_experiment(), adamw = experiment;
  adamw.optimizer.name = "adamw";
  Life sgd(experiment, data, *backend), larger(experiment, more, *backend), other(adamw, data, *backend);
  sgd.step(5);
  larger.step(5);
  other.step(5);
  const WorkerState state = sgd.save().workers.front(), before = larger.save().workers.front();
  const Status cursor = larger.worker(0).restore_cursor(state);
  REQUIRE_FALSE(cursor.ok());
  CHECK(cursor.error().message == "it was in a shard of 90 samples, but this shard has 91");
  CHECK(larger.save().workers.front() == before);
  const Status optimizer = sgd.worker(0).restore_optimizer(other.save().workers.front(), sgd.arena());
  REQUIRE_FALSE(optimizer.ok());
  CHECK(sgd.save().workers.front() == state);

  WorkerState twice = state;
  twice.cursor.order[0] = twice.cursor.order[1];
  CHECK(sgd.worker(0).restore_cursor(twice).error().message == "it was in a shard of other samples");
  CHECK(sgd.save().workers.front() == state);
}

TEST_CASE("a full checkpoint has named parameters, and an evaluation reads only those") {
  const TemporaryFolder folder;
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  Life life(small_experiment(), data, *backend);
  life.step(3);
  const std::string path = folder.file("a");
  REQUIRE(write_peer_state(path, life.layout(), life.save(), {}).ok());
  const auto read = read_safetensors(path, life.layout());
  REQUIRE(read.ok());
  CHECK(same_bits(read->arena, life.parameters()));
  // In a file that is not a checkpoint, such names are parameters.
  const std::vector<float> one = {1};
  REQUIRE(write_tensors(
              folder.file("b"),
              std::vector<TensorToWrite>{{"optimizer.0.x", "F32", {1}, std::as_bytes(std::span(one))}}, {})
              .ok());
  CHECK_FALSE(is_parameter({{kFullCheckpoint, "1"}}, "optimizer.0.x"));
  CHECK(is_parameter({}, "optimizer.0.x"));
}

TEST_CASE("a checkpoint that is damaged, or of another kind or format, is rejected with a message") {
  const TemporaryFolder folder;
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  Life life(small_experiment(), data, *backend);
  life.step(3);
  const std::string path = folder.file("a");
  REQUIRE(write_peer_state(path, life.layout(), life.save(), {}).ok());
  const std::string good = contents(path);
  const auto refusal = [&](const std::string& bytes) {
    const auto facts = inspect_peer_state(folder.write("b", bytes));
    REQUIRE_FALSE(facts.ok());
    CHECK(facts.error().message.find(folder.file("b")) == 0);
    CHECK_FALSE(read_peer_state(folder.file("b"), life.layout()).ok());
    return facts.error().message;
  };
  std::string flipped = good;
  flipped[good.size() - 1000] ^= 4;
  CHECK(refusal(flipped).find("is damaged: its data has the CRC-32 ") != std::string::npos);
  CHECK(refusal(good.substr(0, good.size() / 2)).find("is not a usable safetensors file") !=
        std::string::npos);
  refusal("");
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    REQUIRE(what.size() == by.size());
    text.replace(text.find(what), what.size(), by);
    return text;
  };
  CHECK(refusal(replaced(R"("checkpoint":"1")", R"("checkpoint":"7")")).find("of format '7'") !=
        std::string::npos);
  CHECK(refusal(replaced(R"("checkpoint":"1")", R"("checkpoin_":"1")")).find("only parameters") !=
        std::string::npos);
  for (const char* steps : {R"("steps":"7")", R"("steps":"x")", R"("stepz":"3")"})
    CHECK(refusal(replaced(R"("steps":"3")", steps)).find("is damaged: its header has the CRC-32 ") !=
          std::string::npos);
  // Checked only by the reader of the whole file.
  for (const auto& [what, by] : std::vector<std::pair<std::string, std::string>>{
           {R"("sampler.0.position":")", R"("sampler.0.position":"9)"},
           {R"("sampler.0.random":")", R"("sampler.0.random":"z)"},
           {R"("network.0.draws")", R"("network.0.drawn")"},
           {R"("optimizer.0.steps")", R"("optimizer.0.stepz")"},
           {R"("optimizer.0.velocity.fc1.weight")", R"("optimizer.0.velocity.fc9.weight")"},
           {R"("sampler.0.order")", R"("sampler.0.ordre")"},
       }) {
    INFO(what);
    std::string text = good;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    text.replace(at, by.size(), by);
    folder.write("b", text);
    const auto read = read_peer_state(folder.file("b"), life.layout());
    CHECK_FALSE(read.ok());
  }
}

TEST_CASE(
    "no truncation or changed byte of a full checkpoint crashes its reader, and changed data is detected") {
  const TemporaryFolder folder;
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  Experiment experiment = small_experiment();
  experiment.model.name = "softmax";
  Life life(experiment, data, *backend);
  life.step(3);
  REQUIRE(write_peer_state(folder.file("a"), life.layout(), life.save(), {}).ok());
  const std::string good = contents(folder.file("a"));
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), sizeof header);
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    const std::size_t length = random.below(good.size());
    INFO("cut to " << length);
    REQUIRE_FALSE(inspect_peer_state(folder.write("b", good.substr(0, length))).ok());
    std::string bad = good;
    const std::size_t at = random.below(good.size());
    bad[at] ^= static_cast<char>(1 + random.below(255));
    folder.write("b", bad);
    const bool read = read_peer_state(folder.file("b"), life.layout()).ok();
    if (at >= 8 + header) REQUIRE_FALSE(read);
  }
}

TEST_CASE("a reader written only from the format's description reads the file") {
  if (std::system("python3 -c 'import sys' > /dev/null 2>&1") != 0) {
    WARN("skipped: there is no python3");
    return;
  }
  const TemporaryFolder folder;
  const auto data = datasets::make_glyphs(1, 90, 10);
  const auto backend = cpu();
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    Experiment experiment = small_experiment();
    kind.set(experiment);
    Life life(experiment, data, *backend);
    life.step(11);
    const PeerState state = life.save();
    const std::string path = folder.file("a.safetensors");
    REQUIRE(write_peer_state(path, life.layout(), state, {{"name", "with \"quotes\" and \xc3\xa4"}}).ok());
    // The sums that the reader should find, added in the order of the values.
    double parameters = 0, velocity = 0;
    for (const auto& tensor : life.layout().tensors()) {
      for (std::size_t i = 0; i < tensor.size; ++i) {
        parameters += static_cast<double>(state.parameters[tensor.offset + i]);
        if (tensor.trained) velocity += static_cast<double>(state.workers.back().velocity[tensor.offset + i]);
      }
    }
    const std::string command = "python3 " STARLING_SOURCE_DIR "/tests/runs/read_checkpoint.py " + path +
                                " " + std::to_string(state.workers.size()) + " " +
                                std::to_string(state.steps) + " " + std::to_string(data.train.size()) + " " +
                                format_number(parameters) + " " + format_number(velocity) + " " +
                                std::to_string(state.workers.front().cursor.position);
    INFO(command);
    CHECK(std::system(command.c_str()) == 0);
  }
}

}  // namespace starling::training
