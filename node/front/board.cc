#include "node/front/board.h"

#include <cmath>
#include <utility>
#include <vector>

namespace starling::node {
namespace {

constexpr std::chrono::seconds kInterval{1};

}  // namespace

Result<std::unique_ptr<Board>> Board::open(const std::string& folder) {
  auto file = training::TensorBoard::open(folder);
  if (!file) return file.error();
  return std::unique_ptr<Board>(new Board(std::move(*file)));
}

bool Board::is_due() const { return is_open() && Clock::now() - shown_ >= kInterval; }

void Board::show(const PeerStatus& its, const std::optional<SelfJudge::Seen>& seen, Background& disk,
                 std::function<void(const std::string&)> failed) {
  if (!is_open() || its.steps == 0) return;
  shown_ = Clock::now();
  std::vector<std::pair<std::string, double>> scalars;
  const auto draw = [&](const char* name, const std::optional<double>& value) {
    if (value) scalars.emplace_back(name, *value);
  };
  draw("loss", its.loss);
  draw("learning_rate", its.learning_rate);
  draw("distance", its.distance);
  draw("staleness", its.staleness);
  draw("samples_per_second", its.samples_per_second);
  draw("exchanges", static_cast<double>(its.exchanges.completed + its.exchanges.answered));
  const auto& units = its.units;
  if (units.epoch_samples > 0)
    draw("swarm/epochs", static_cast<double>(its.swarm_samples) / static_cast<double>(units.epoch_samples));
  if (units.sample_tokens > 0 && its.samples_per_second)
    draw("tokens_per_second", *its.samples_per_second * static_cast<double>(units.sample_tokens));
  draw("swarm/members", static_cast<double>(its.members_live));
  if (its.pipeline) {
    draw("pipeline/bubble", its.pipeline->bubble);
    draw("pipeline/step_seconds", its.pipeline->step_seconds);
    for (const auto& stage : its.pipeline->stages)
      scalars.emplace_back("pipeline/busy/stage_" + stage.name, 1 - stage.idle);
  }
  if (seen && seen->number > looks_) {
    looks_ = seen->number;
    draw("test/accuracy", seen->accuracy);
    draw("test/loss", seen->loss);
    if (units.sample_tokens > 0) draw("test/perplexity", std::exp(seen->loss));
  }
  const double time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  disk.run([file = file_, time, step = static_cast<std::int64_t>(its.steps),
            scalars = std::move(scalars)] { return file->add(time, step, scalars); },
           [this, failed = std::move(failed)](const Status& written) {
             if (written || !is_open()) return;
             file_.reset();
             failed(written.error().message);
           });
}

}  // namespace starling::node
