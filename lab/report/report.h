// The results of one or many runs, read from their folders and set side by side: curves, time lines, and a
// table over the seeds of each kind of run. lab/report_page.h makes a page of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/report/statistics.h"

namespace starling::lab {

// A look at a running swarm. What was not measured is absent.
struct ReportPoint {
  double seconds = 0;
  double samples = 0;
  std::optional<double> bytes;                      // sent by all peers so far
  std::optional<double> loss, accuracy, consensus;  // of the mean model; the distance of the replicas from it
  std::optional<double> training_loss;              // of late batches, the mean over peers
  std::optional<double> predicted;                  // consensus distance, see ReportRun::prediction
  double steps = 0, exchanges = 0;                  // of all peers, so far
  bool is_end = false;                              // the run's end, judged by all of the test set
};

// A row of the picture of who does what when: columns of equal length, each with its parts in [0, 1].
struct ReportRow {
  std::string peer;
  struct Column {
    float computing = 0, exchanging = 0, waiting = 0, stopped = 1;
    float slowness = 1;  // by how much its steps took longer than the swarm's median one
  };
  std::vector<Column> columns;
  double slowness = 1;            // over the run
  std::array<double, 4> parts{};  // computing, exchanging, waiting, stopped: of the picture's time
};

struct ReportPeer {
  std::string name, state;
  double steps = 0, samples = 0, exchanges = 0, slow = 1;
  std::optional<double> accuracy;
};

struct ReportRun {
  std::string folder;  // as it was given, or below that
  std::string label;
  std::size_t group = 0;
  std::string name, mode, model, data, topology, rule, payload;
  std::uint64_t seed = 0;
  std::uint32_t peers = 0;
  double parameters = 0, seconds = 0, samples = 0, samples_per_second = 0, exchanges = 0, bytes_sent = 0;
  std::optional<double> accuracy, loss, accuracy_min, accuracy_max, consensus, seconds_to_target,
      spectral_gap;
  std::optional<double> target;                           // that it was to reach
  std::vector<std::pair<std::string, double>> staleness;  // "3-4" steps: so many exchanges
  std::vector<ReportPeer> per_peer;
  std::map<std::string, std::string>
      settings;  // "gossip.rule", "fault.1.slow": as its experiment.toml has them
  std::vector<ReportPoint> points;
  std::string prediction;  // a sentence: what ReportPoint::predicted is made of, or why there is none
  std::vector<ReportRow> rows;
  double rows_from = 0, rows_to = 0;  // seconds
  std::size_t peers_not_shown = 0;
  std::string graph;       // a drawing of its topology, SVG; empty where that would show nothing
  std::string graph_text;  // what is below it
};

// Runs that differ in nothing but their seed.
struct ReportGroup {
  std::string label;
  std::vector<std::string> values;  // of Report::keys
  std::vector<std::size_t> runs;
  std::size_t reached = 0;  // runs that reached the target
  std::optional<Spread> seconds_to_target, accuracy, seconds, bytes_sent;
  std::optional<Speedup> speedup;  // of the time to target, over the reference
};

struct Report {
  std::string title;
  std::vector<std::string> keys;  // settings in which groups differ
  std::vector<ReportRun> runs;
  std::vector<ReportGroup> groups;
  std::optional<double> target;  // accuracy that times to target are of
  bool target_from_curves =
      false;                  // times are those of the looks, interpolated, and not what runs themselves saw
  std::size_t reference = 0;  // the group that speed-ups are over
};

struct ReportOptions {
  std::optional<double> target;  // unset: the runs' own, or else one that all of them reach with ease
  // Which group speed-ups are over: its label ("topology=ring"), or a value that it alone has ("ring"); unset: the first.
  std::optional<std::string> against = {};
};

// Each folder is a run's, or holds runs' folders. Errors say in one sentence which file is wrong and how.
Result<Report> read_report(const std::vector<std::string>& folders, const ReportOptions& options = {});

// The table: a line a group, and names above.
std::string to_csv(const Report& report);

}  // namespace starling::lab
