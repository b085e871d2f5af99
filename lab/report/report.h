// A report: the results of one or many runs side by side, their curves, time lines, and a table over the
// seeds of each kind of run. read_report() fills it in several steps, to_html() renders it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/report/statistics.h"
#include "training/runs/records/looks.h"
#include "training/runs/records/pipeline_record.h"
#include "training/runs/records/timeline.h"

namespace starling::lab {

// A moment of a running swarm. What was not measured is absent.
struct ReportPoint {
  double seconds = 0;
  double samples = 0;
  std::optional<double> bytes;                      // sent by all peers so far
  std::optional<double> loss, accuracy, consensus;  // of the mean model; the replicas' distance from it
  std::optional<double> training_loss;              // of late batches, the mean over peers
  std::optional<double> predicted;                  // consensus distance, see ReportRun::prediction
  double steps = 0, exchanges = 0;                  // of all peers, so far
  bool is_end = false;                              // the end, evaluated on the whole test set
};

// A row of the time lines: columns of equal length, each with its parts in [0, 1].
struct ReportRow {
  std::string peer;
  struct Column {
    float computing = 0, exchanging = 0, waiting = 0, stopped = 1;
    float slowness = 1;  // the length of its steps, relative to the swarm's median
  };
  std::vector<Column> columns;
  double slowness = 1;            // over the run
  std::array<double, 4> parts{};  // computing, exchanging, waiting, stopped: of the time shown
};

struct ReportPeer {
  std::string name, state;
  double steps = 0, samples = 0, exchanges = 0, slow = 1;
  std::optional<double> accuracy;
  std::string own_data;   // empty: a part of the run's
  std::string precision;  // of its products; empty: unknown
};

// The summary.json of a run.
struct ReportSummary {
  std::string name, mode, model, data, topology, rule, payload;
  std::uint64_t seed = 0;
  std::uint32_t peers = 0;
  struct End {
    bool interrupted = false;  // by the user
    std::optional<double> epochs, epochs_asked;
  } end;
  double parameters = 0, seconds = 0, samples = 0, samples_per_second = 0, exchanges = 0, bytes_sent = 0;
  std::optional<double> accuracy, loss, accuracy_min, accuracy_max, consensus, seconds_to_target,
      spectral_gap;
  std::vector<std::pair<std::string, double>> staleness;  // number of exchanges by steps, "3-4"
  std::vector<ReportPeer> per_peer;
};

struct ReportRun : ReportSummary {
  struct Text {
    std::optional<double> tokens, perplexity, bits_per_character;
  } text;              // of a run on a text
  double shift = 0;    // added to the times in its time series, which simulate and swarm count differently
  std::string folder;  // as given, or below a folder that was given
  std::string label;
  std::size_t group = 0;
  std::optional<double> target;                 // of the experiment: an accuracy, or
  bool target_is_loss = false;                  // a loss
  std::map<std::string, std::string> settings;  // of its experiment.toml: "gossip.rule", "fault.1.slow"
  std::map<std::string, std::string> spelled;   // those of its sweep, as the sweep's file has them: "0.5 s"
  std::map<std::string, std::string> used;      // of settings that are not set and could be: "gossip.every"
  // What settings name, by their keys: the hash of the data, the layers of a network, a graph. Runs differ in
  // such a setting if they differ here.
  std::map<std::string, std::string> contents;
  std::string program;     // that made it, and the processor: "starling 0.3.0 on avx2"; empty: unknown
  std::string trace_hash;  // of a simulation
  std::set<std::string> without_effect;  // keys that are not among `settings`, because they change nothing
  std::vector<training::Look> looks;     // every evaluation, and the end
  std::vector<training::Look> losses;    // the same, as training::losses_in()
  std::vector<ReportPoint> points;       // at most some hundreds
  std::string prediction;  // a sentence: how ReportPoint::predicted is computed, or why it is absent
  std::vector<ReportRow> rows;
  double rows_to = 0;  // the rows cover the run up to here, in seconds
  std::size_t peers_not_shown = 0;
  std::vector<training::PipelineRecord> pipelines;
  std::string graph;       // SVG of its topology; empty if there is nothing to show
  std::string graph_text;  // the caption below
};

// Runs that differ only in their seed, or in settings without effect.
struct ReportGroup {
  std::string label;                // "slow=10,rule=d-psgd", as the names of a sweep's folders
  std::vector<std::string> values;  // of Report::keys
  std::vector<std::size_t> runs;
  // Of `runs`, those in the statistics: not simulations that repeat a seed, because they repeat its result or
  // contradict it, and not interrupted runs, unless they had reached the target.
  std::vector<std::size_t> counted;
  std::size_t reached = 0;  // counted runs that reached the target
  // The time's mean and interval come from log_spread_of(), for the runs that reached the target; it has an
  // interval only if all did.
  std::optional<Spread> seconds_to_target, accuracy, loss, seconds, bytes_sent;  // none if no run counts
  std::optional<Speedup> speedup;  // of the time to target, over the reference; none for the reference
};

struct Report {
  std::string title;
  bool from_start = false;         // see ReportOptions
  std::vector<std::string> keys;   // settings in which groups differ: "fault.1.slow"
  std::vector<std::string> names;  // theirs in tables: "slow"
  std::vector<ReportRun> runs;
  std::vector<ReportGroup> groups;
  std::optional<double> target;      // accuracy to which times are measured, or
  bool target_is_loss = false;       // a loss
  bool target_from_curves = false;   // the runs had no such target, so their evaluations did not test for it
  std::size_t reference = 0;         // the group that speed-ups are relative to
  std::vector<std::string> skipped;  // paths that were given and have no results, beside others that do
};

// "99 %" or "a loss of 2". REQUIRES: there is a target.
std::string target_text(const Report& report);

struct ReportOptions {
  std::optional<double> target;  // an accuracy; unset: the runs' own, or else one that all of them reach
  // The group that speed-ups are relative to: its label ("slow=10,rule=d-psgd"), with spaces after commas,
  // with whole keys, in another order, or as much of it as only this group has ("rule=ring", "ring"); also
  // the name of one of its folders in a sweep. Unset: the first.
  std::optional<std::string> against = {};
  bool from_start = false;  // times count from the start of the peers, not from when they train
};

// Reads the results of runs. Each folder is a run's, or contains folders of runs. Files and folders without
// results are skipped if others have some. An Error names the file that is damaged and its problem.
Result<Report> read_report(const std::vector<std::string>& folders, const ReportOptions& options = {});

// ---- the steps of read_report() ----

// Fills settings, used, contents, without_effect and the target from the experiment.toml at `path`.
// REQUIRES: the summary has been read. The Error names the place.
Status take_identity(ReportRun& run, const std::string& path);

// Spells equal things alike: a setting that some runs set has the value that is used in those that do not;
// settings with equal contents have one name, the first, and others of this name have a number:
// "file:g.txt (2)", "my.csv (2)".
void name_alike(std::vector<ReportRun>& runs);

// The evaluations of a run, from the metrics.jsonl in its folder, and its end; of a run without evaluations,
// 400 moments that are equally far apart. The Error names the line that is damaged.
Result<std::vector<ReportPoint>> read_points(const std::string& folder, const ReportRun& run);
// At most this many (> 1) of the points, evenly selected, with the first and the last.
std::vector<ReportPoint> thinned(std::vector<ReportPoint> points, std::size_t most);

// The cells of one peer in timeline.jsonl.
struct PeerCells {
  std::string peer;
  std::vector<training::Timeline::Cell> cells;
};
// Fills run.rows with columns of equal length. If there are too many peers, the slowest, the fastest and an
// even selection of the others are shown.
void make_rows(ReportRun& run, const std::vector<PeerCells>& peers);

// Fills run.pipelines from the pipelines.jsonl in its folder; a run without pipelines has none. The Error
// names the line that is damaged.
Status read_pipelines(ReportRun& run);

// Fills run.graph, run.graph_text, run.prediction and the predicted values of run.points from the topology.
// Only the size of the predicted consensus distance is fitted to the run.
void add_theory(ReportRun& run);

// Groups the runs, names groups and runs, and fills the groups' statistics. A group has a speed-up only if
// all of its runs reached the target.
Status tabulate(Report& report, const ReportOptions& options);

// The number of the group with this name (ReportOptions::against). The Error lists the groups.
Result<std::size_t> find_group(const Report& report, const std::string& name);
// The numbers of all groups with this name, at least one, as several have "rule=ring".
Result<std::vector<std::size_t>> find_groups(const Report& report, const std::string& name);

// "interrupted at epoch 0.4 of 3".
std::string interrupted_at(const ReportRun& run);

// The table as CSV: the names of the columns, and a line per group.
std::string to_csv(const Report& report);

// All curves as CSV, with a line per run and evaluation (read_points()): the settings that differ, seed, run
// (the name of its folder), look (its number, from 1), seconds, samples and bytes sent so far, what was
// measured, and end: true for the last line of a run, evaluated on the whole test set. Cells are numbers,
// true and false, or texts; what was not measured is empty. The Error names a file that is damaged.
Result<std::string> curves_csv(const Report& report);

// A sentence for each reason for which runs are not in the statistics, with the runs, and one if several
// versions of the program, or processors, made them.
std::vector<std::string> set_aside(const Report& report);

// What is behind a figure of these groups: "6 runs with 3 seeds, 1 of them set aside, in virtual time."
std::string runs_text(const Report& report, const std::vector<std::size_t>& groups);

// "2 seeds: intervals mean little; 5 or more are usual" if groups have several seeds, but few; else empty.
std::string few_seeds(const Report& report);

// ---- the page ----

// The report as one self-contained HTML page with style, script and data. web/report.js draws the plots; the
// tables do not need it.
std::string to_html(const Report& report);

// Writes the page of the results in `folder` to its report.html.
Status write_report(const std::string& folder);

}  // namespace starling::lab
