// How a hunt's outcome is told.
#include <cstdio>

#include <string>

#include "lab/hunt/hunt.h"
#include "training/records/json.h"

namespace starling::lab {
namespace {

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string failure_sentence(const HuntOutcome::Failure& failure) {
  char at[32];
  std::snprintf(at, sizeof at, "%.3f", to_seconds(failure.violation.at.since_start));
  return "seed " + std::to_string(failure.seed) + " violates statement " +
         std::to_string(failure.violation.statement) + " at " + at + " s: " + failure.violation.text;
}

}  // namespace

std::string summary_text(const HuntOptions& options, const HuntOutcome& outcome) {
  const HuntTotals& t = outcome.totals;
  char hours[32];
  std::snprintf(hours, sizeof hours, "%.1f", t.virtual_seconds / 3600);
  std::string text =
      counted(t.seeds, "seed", "seeds") + ", " + hours +
      " virtual hours: " + counted(t.crashes, "crash", "crashes") + ", " +
      counted(t.leaves, "leave", "leaves") + ", " + counted(t.restarts, "restart", "restarts") + ", " +
      counted(t.pauses, "pause", "pauses") + ", " + counted(t.slownesses, "slowness", "slownesses") + ", " +
      counted(t.partitions, "partition", "partitions") + ", " + counted(t.cuts, "cut", "cuts") + ", " +
      counted(t.clogs, "clog", "clogs") + ", " + counted(t.resets, "reset", "resets") + ", " +
      counted(t.half_opens, "half-open link", "half-open links") + ", " +
      counted(t.rewirings, "change of topology", "changes of topology") + ", " +
      counted(t.losses, "lost replica", "lost replicas") + "\n";
  text += counted(t.connections_broken, "connection", "connections") + " broke; " +
          counted(t.poison_refused, "poisoned chunk", "poisoned chunks") + " and " +
          counted(t.mutations_refused, "mutated frame", "mutated frames") + " were refused; " +
          counted(t.exchanges_completed, "exchange", "exchanges") + " completed, " +
          std::to_string(t.exchanges_aborted) + " aborted, " +
          counted(t.half_applied_chunks, "chunk", "chunks") + " half applied\n";
  if (!outcome.failure) return text + "no violation\n";
  return text + failure_sentence(*outcome.failure) + "\n" + replay_line(options, outcome.failure->seed) +
         "\n";
}

std::string to_json(const HuntOptions& options, const HuntOutcome& outcome) {
  const HuntTotals& t = outcome.totals;
  training::Json failure;
  if (outcome.failure) {
    failure = {{"seed", outcome.failure->seed},
               {"statement", outcome.failure->violation.statement},
               {"at_seconds", to_seconds(outcome.failure->violation.at.since_start)},
               {"text", outcome.failure->violation.text},
               {"replay", replay_line(options, outcome.failure->seed)}};
  }
  const training::Json object = {{"faults", options.faults},
                                         {"seeds", t.seeds},
                                         {"virtual_seconds", t.virtual_seconds},
                                         {"happenings", t.happenings},
                                         {"crashes", t.crashes},
                                         {"leaves", t.leaves},
                                         {"restarts", t.restarts},
                                         {"pauses", t.pauses},
                                         {"slownesses", t.slownesses},
                                         {"partitions", t.partitions},
                                         {"cuts", t.cuts},
                                         {"clogs", t.clogs},
                                         {"resets", t.resets},
                                         {"half_opens", t.half_opens},
                                         {"rewirings", t.rewirings},
                                         {"losses", t.losses},
                                         {"connections_broken", t.connections_broken},
                                         {"poisoned_chunks_refused", t.poison_refused},
                                         {"mutated_frames_refused", t.mutations_refused},
                                         {"exchanges",
                                          {{"completed", t.exchanges_completed},
                                           {"aborted", t.exchanges_aborted},
                                           {"half_applied_chunks", t.half_applied_chunks}}},
                                         {"failure", failure}};
  return training::to_text(object);
}

}  // namespace starling::lab
