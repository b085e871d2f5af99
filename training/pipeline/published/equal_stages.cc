// equal_stage_figures() of figures.h.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "training/pipeline/published/figures.h"
#include "training/pipeline/timing.h"

namespace starling::training {
namespace {

struct EqualStages {
  const char* work;
  const char* network;
  std::uint32_t stages, micro_batches;
  double published;
  const char* source;
  const char* reason;
};

constexpr const char* kTable2 = "Huang et al., NeurIPS 2019, table 2";
constexpr const char* kKim = "Kim et al., arXiv 2004.09910, speed of AmoebaNet-D (18, 256)";

constexpr std::array<EqualStages, 8> kEqualStages{{
    {"GPipe", "Transformer", 4, 32, 3.4, kTable2, "ours has no transfers and no cost of a micro-batch"},
    {"GPipe", "Transformer", 8, 32, 6.3, kTable2, "ours has no transfers and no cost of a micro-batch"},
    {"GPipe", "AmoebaNet-D", 8, 1, 1.38, kTable2, "its batch grew with the memory of more devices"},
    {"GPipe", "AmoebaNet-D", 8, 4, 1.72, kTable2, "its stages are not equal, as the paper says"},
    {"GPipe", "AmoebaNet-D", 8, 32, 3.48, kTable2, "its stages are not equal, as the paper says"},
    {"torchgpipe", "AmoebaNet-D", 8, 1, 0.932, kKim, "ours has no transfers: one device computes at a time"},
    {"torchgpipe", "AmoebaNet-D", 8, 4, 2.625, kKim, "its stages are not equal; ours has no transfers"},
    {"torchgpipe", "AmoebaNet-D", 8, 32, 4.966, kKim, "its stages are not equal; micro-batches are small"},
}};

// Seconds of a batch whose passes take a second forward and two backward on one device. Recomputation,
// another pass forward, would change all of them by the same factor.
double seconds_of_batch(std::uint32_t stages, std::uint32_t micro_batches) {
  const PipelineShape shape{.replicas = std::vector<std::uint32_t>(stages, 1),
                            .schedule = PipelineSchedule::gpipe,
                            .micro_batches = micro_batches,
                            .batches = 1};
  const double part = 1.0 / (static_cast<double>(stages) * micro_batches);
  const PipelineTimes times{
      .stages = std::vector<StageTimes>(stages, StageTimes{.forward = part, .backward = 2 * part}),
      .links = {}};
  return time_pipeline(shape, times).seconds;
}

}  // namespace

std::vector<PublishedFigure> equal_stage_figures() {
  const double before = seconds_of_batch(2, 1);
  std::vector<PublishedFigure> figures;
  for (const EqualStages& row : kEqualStages) {
    figures.push_back({.work = row.work,
                       .setting = std::string(row.network) + ", K " + std::to_string(row.stages) + ", M " +
                                  std::to_string(row.micro_batches),
                       .baseline = "K 2, M 1",
                       .source = row.source,
                       .published = row.published,
                       .ours = before / seconds_of_batch(row.stages, row.micro_batches),
                       .reason = row.reason});
  }
  return figures;
}

}  // namespace starling::training
