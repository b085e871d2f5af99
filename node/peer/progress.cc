#include "node/peer/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace starling::node {

std::string ends_after(const training::EndSettings& end) {
  std::string text;
  const auto add = [&text](const std::string& limit) { text += (text.empty() ? "" : " or ") + limit; };
  if (end.epochs) add(fmt::format("{:g} epochs of the swarm", *end.epochs));
  if (end.steps) add(fmt::format("{} steps of this peer", *end.steps));
  if (end.seconds) add(format_duration(*end.seconds) + " since the run began");
  return text;
}

std::optional<double> RunProgress::seconds_left(const training::EndSettings& end, std::uint64_t epoch_samples,
                                                const Now& now) const {
  if (!begun_ || !(now.time > begun_->time)) return std::nullopt;
  const double seconds = std::chrono::duration<double>(now.time - begun_->time).count();
  std::optional<double> left;
  const auto limit = [&](double goal, std::uint64_t count, std::uint64_t at_begin) {
    if (count <= at_begin) return;
    const double rate = static_cast<double>(count - at_begin) / seconds;
    const double to_go = std::max(0.0, goal - static_cast<double>(count)) / rate;
    left = std::min(left.value_or(to_go), to_go);
  };
  if (end.epochs)
    limit(*end.epochs * static_cast<double>(epoch_samples), now.swarm_samples, begun_->swarm_samples);
  if (end.steps) limit(static_cast<double>(*end.steps), now.steps, begun_->steps);
  return left;
}

std::string RunProgress::text(const training::EndSettings& end, std::uint64_t epoch_samples,
                              const Now& now) const {
  std::string text = fmt::format("{} samples", now.swarm_samples);
  if (epoch_samples > 0) {
    const double epochs = static_cast<double>(now.swarm_samples) / static_cast<double>(epoch_samples);
    text = end.epochs ? fmt::format("{:.1f} of {:g} epochs", epochs, *end.epochs)
                      : fmt::format("{:.1f} epochs", epochs);
  }
  if (end.steps) text += fmt::format(", {} of {} steps", now.steps, *end.steps);
  if (const auto left = seconds_left(end, epoch_samples, now)) text += ", " + format_time_left(*left);
  return text;
}

}  // namespace starling::node
