// The curves of a report: metrics.jsonl as points.
#include <algorithm>
#include <filesystem>

#include "lab/report/lines.h"
#include "lab/report/report.h"
#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

constexpr std::size_t kLargestSeries = std::size_t{1} << 30;
constexpr std::size_t kPointsWithoutLooks = 400;

// The lines of metrics.jsonl as points of the whole swarm: a point sums up the latest line of each peer. An
// evaluation of the mean model closes a point; in a run without evaluations, points are equally far apart in
// time.
class Points {
 public:
  Points(const ReportRun& run, std::size_t most, bool evaluations)
      : shift_(run.shift),
        evaluations_(evaluations),
        apart_(std::max(run.seconds, 1e-9) / static_cast<double>(most)) {}

  bool take(const FlatLine& line) {
    const auto peer = line.text("peer");
    auto seconds = line.figure("seconds");
    if (!peer || !seconds) return false;
    *seconds += shift_;
    if (*peer == "mean") {
      close(*seconds);
      ReportPoint& point = points_.back();
      point.loss = line.figure("loss");
      point.accuracy = line.figure("accuracy");
      point.consensus = line.figure("consensus_distance");
      point.samples = std::max(point.samples, line.figure("samples").value_or(0));
      if (const auto bytes = line.figure("bytes_sent"); bytes && *bytes > point.bytes.value_or(0))
        point.bytes = bytes;
      return true;
    }
    auto known = peers_.find(*peer);
    if (known == peers_.end()) known = peers_.emplace(std::string(*peer), Latest{}).first;
    Latest& latest = known->second;
    latest.steps = line.figure("steps").value_or(0);
    latest.samples = line.figure("samples").value_or(0);
    latest.exchanges = line.figure("exchanges").value_or(0);
    latest.bytes = line.figure("bytes_sent");
    latest.loss = line.figure("loss");
    if (!evaluations_ && *seconds >= last_ + apart_) close(*seconds);
    return true;
  }

  std::vector<ReportPoint> points() { return std::move(points_); }

 private:
  struct Latest {
    double steps = 0, samples = 0, exchanges = 0;
    std::optional<double> bytes, loss;
  };

  void close(double seconds) {
    ReportPoint point;
    point.seconds = last_ = seconds;
    double losses = 0, bytes = 0;
    std::size_t with_loss = 0, with_bytes = 0;
    for (const auto& [name, latest] : peers_) {
      point.steps += latest.steps;
      point.samples += latest.samples;
      point.exchanges += latest.exchanges / 2;  // each has two sides
      if (latest.bytes) bytes += *latest.bytes, ++with_bytes;
      if (latest.loss) losses += *latest.loss, ++with_loss;
    }
    if (with_bytes > 0) point.bytes = bytes;
    if (with_loss > 0) point.training_loss = losses / static_cast<double>(with_loss);
    points_.push_back(point);
  }

  double shift_;  // of times
  bool evaluations_;
  double apart_, last_ = -1e300;  // seconds
  std::map<std::string, Latest, std::less<>> peers_;
  std::vector<ReportPoint> points_;
};

// The end of a run is an evaluation, on the whole test set.
void add_end(std::vector<ReportPoint>& points, const ReportRun& run) {
  if (run.seconds <= 0) return;
  ReportPoint end = points.empty() ? ReportPoint{} : points.back();
  end.seconds = std::max(end.seconds, run.seconds);
  end.samples = std::max(end.samples, run.samples);
  if (end.bytes || points.empty()) end.bytes = std::max(end.bytes.value_or(0), run.bytes_sent);
  end.loss = run.loss;
  end.accuracy = run.accuracy;
  end.consensus.reset();  // the summary's is that after settling
  end.is_end = true;
  end.exchanges = std::max(end.exchanges, run.exchanges);
  points.push_back(end);
}

}  // namespace

Result<std::vector<ReportPoint>> read_points(const std::string& folder, const ReportRun& run) {
  std::vector<ReportPoint> points;
  if (const std::string path = folder + "/metrics.jsonl"; std::filesystem::exists(path)) {
    const auto text = training::read_text(path, kLargestSeries);
    if (!text) return text.error();
    Points series(run, kPointsWithoutLooks, text->find(R"("peer":"mean")") != std::string::npos);
    const Status read = for_each_flat_line(*text, path, "time series",
                                           [&](const FlatLine& line) { return series.take(line); });
    if (!read) return read.error();
    points = series.points();
  }
  add_end(points, run);
  return points;
}

std::vector<ReportPoint> thinned(std::vector<ReportPoint> points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<ReportPoint> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return some;
}

}  // namespace starling::lab
