// The accuracy of a run over time, as its evaluations in metrics.jsonl, and when it reached a target. For
// programs that read the files of runs.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace starling::training {

// An evaluation of the mean model.
struct Look {
  double seconds = 0;
  double accuracy = 0;  // 0..1
};

// The lines of the mean model that have an accuracy, in their order. Lines that are not JSON are left out.
std::vector<Look> looks_in(std::string_view metrics);

// The same with the negative loss in place of the accuracy, so that more is better: for a target of the loss.
std::vector<Look> losses_in(std::string_view metrics);

// When the accuracy first reached the target, on a line between the first look that did and the one before
// it; the time of that look if it is the first; nullopt if none reached it.
std::optional<double> time_to(std::span<const Look> looks, double target);

// The same for a run that recorded `seconds`, the time of the look that reached its target. It may count from
// another moment than the looks: `seconds` less the time from the crossing to that look.
double time_before(std::span<const Look> looks, double target, double seconds);

}  // namespace starling::training
