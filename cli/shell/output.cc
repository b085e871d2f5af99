#include "cli/shell/output.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <map>

#include "base/program.h"
#include "base/text.h"

namespace starling::cli {
namespace {

std::string percent(const std::optional<double>& fraction) {
  return fraction ? format_percent(*fraction) : "-";
}

// The stages of the first peers that have any.
std::string stages_of_peers(const training::Summary& summary) {
  constexpr std::size_t kMostTables = 4;
  std::string text;
  std::size_t pipelines = 0;
  for (const training::PeerRecord& peer : summary.per_peer)
    if (peer.pipeline && ++pipelines <= kMostTables)
      text += fmt::format("\nstages of {}: {}", peer.name, stages_text(*peer.pipeline));
  if (pipelines > kMostTables) text += fmt::format("and {} more in summary.json\n", pipelines - kMostTables);
  return text;
}

// What the devices of peers divide, a line for each kind of division.
std::string devices_of_peers(const training::Summary& summary) {
  std::map<std::string, std::string> peers;  // by their split
  for (const training::PeerRecord& peer : summary.per_peer) {
    if (!peer.split) continue;
    std::string& names = peers[*peer.split];
    names += (names.empty() ? "" : ", ") + peer.name;
  }
  std::string text;
  for (const auto& [split, names] : peers) text += fmt::format("devices   {}: {}\n", names, split);
  return text;
}

}  // namespace

void warn(const std::string& sentence) {
  if (!sentence.empty()) spdlog::warn("{}", sentence);
}

void ProgressLine::show(const std::string& text) {
  constexpr std::chrono::seconds kBetweenLines(10);
  if (text == shown_) return;
  shown_ = text;
  if (terminal_) {
    // A longer line would wrap, and stay behind when it is redrawn.
    const std::size_t columns = terminal_columns(STDERR_FILENO);
    fmt::print(stderr, "\r\033[K{}", cut_to_columns(text, columns > 1 ? columns - 1 : columns));
    std::fflush(stderr);
  } else if (const auto now = std::chrono::steady_clock::now(); now - written_ >= kBetweenLines) {
    written_ = now;
    tell(Told::progress, text);
  }
}

void ProgressLine::clear() {
  if (terminal_) show("");
}

std::optional<double> TimeLeft::after(double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (fraction <= 0) return std::nullopt;
  if (!first_) first_ = {now, fraction};
  const double seconds = std::chrono::duration<double>(now - first_->first).count();
  const double done = fraction - first_->second;
  if (seconds < 1 || done <= 0) return std::nullopt;
  return std::max(0.0, seconds * (1 - fraction) / done);
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) text += "  ";
      text += c < left ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    text += '\n';
  }
  return text;
}

std::string format_bytes(double bytes) {
  std::string text = format_count(bytes);
  if (text.find(' ') == std::string::npos) text += ' ';
  return text + "B";
}

std::string format_count(double count) {
  constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  while (count >= 999.5 && prefix + 1 < kPrefixes.size()) {
    count /= 1000;
    ++prefix;
  }
  return prefix == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g} {}", count, kPrefixes[prefix]);
}

std::string stages_text(const training::PipelineRecord& pipeline) {
  std::string text =
      fmt::format("{}, {} micro-batch{}, a step in {:.3f} ms, bubble {} measured over {} steps\n",
                  pipeline.schedule, pipeline.micro_batches, pipeline.micro_batches == 1 ? "" : "es",
                  1e3 * pipeline.step_seconds, format_percent(pipeline.bubble), pipeline.steps);
  std::vector<std::vector<std::string>> rows = {
      {"stage", "layers", "device", "busy per step", "waiting", "micro-batches kept", "versions"}};
  const double steps = static_cast<double>(std::max<std::uint64_t>(pipeline.steps, 1));
  for (const training::PipelineRecord::Stage& stage : pipeline.stages)
    rows.push_back({stage.name, stage.layers, stage.device,
                    fmt::format("{:.3f} ms", 1e3 * stage.busy_seconds / steps), format_percent(stage.idle),
                    std::to_string(stage.micro_batches_kept), std::to_string(stage.versions)});
  return text + aligned(rows, 3);
}

std::string stopped_at(const training::Summary& summary) {
  return fmt::format("stopped at epoch {:.2g}{}", summary.epochs,
                     summary.epochs_asked ? fmt::format(" of {:g}", *summary.epochs_asked) : "");
}

std::string summary_text(const training::Summary& summary, const std::string& folder) {
  std::string text;
  auto out = std::back_inserter(text);
  std::size_t width = 4;
  for (const training::PeerRecord& peer : summary.per_peer) width = std::max(width, peer.name.size());
  fmt::format_to(out, "{:<{}}  {:<8}  {:>8}  {:>10}  {:>9}  {:>9}  {:>5}\n", "peer", width, "state", "steps",
                 "samples", "accuracy", "exchanges", "slow");
  for (const training::PeerRecord& peer : summary.per_peer) {
    fmt::format_to(out, "{:<{}}  {:<8}  {:>8}  {:>10}  {:>9}  {:>9}  {:>5g}\n", peer.name, width, peer.state,
                   peer.steps, peer.samples, percent(peer.accuracy), peer.exchanges, peer.slow);
  }
  text += stages_of_peers(summary);
  // The name of a graph from a file contains the whole graph.
  constexpr std::size_t kShown = 60;
  const std::string more = summary.topology.size() > kShown ? "..." : "";
  if (summary.interrupted) fmt::format_to(out, "\n{}\n", stopped_at(summary));
  const bool alone = summary.peers == 1;  // without exchanges
  fmt::format_to(out, "\n{} on {}, {}\n", summary.model, summary.data,
                 alone ? "1 peer"
                       : fmt::format("{} peers, {}, {}", summary.peers,
                                     summary.topology.substr(0, kShown) + more, summary.rule));
  if (summary.perplexity) {
    fmt::format_to(
        out, "loss      {:.4f} nats, perplexity {:.2f}, {:.3f} bits per token{}\n", *summary.loss,
        *summary.perplexity, *summary.bits_per_token,
        summary.bits_per_character ? fmt::format(", {:.3f} per character", *summary.bits_per_character) : "");
  }
  fmt::format_to(out, "{}  {}", summary.tokens ? "next token" : "accuracy", percent(summary.accuracy));
  if (!alone && summary.accuracy_min && summary.accuracy_max) {
    fmt::format_to(out, "  (replicas {} to {})", percent(summary.accuracy_min),
                   percent(summary.accuracy_max));
  }
  if (summary.loss && !summary.perplexity) fmt::format_to(out, ", loss {:.4f}", *summary.loss);
  if (!alone && summary.consensus_distance)
    fmt::format_to(out, ", consensus distance {:.2g}", *summary.consensus_distance);
  fmt::format_to(
      out, "\ntime      {:.1f} s{}, {} samples{}, {:.0f} samples/s\n", summary.seconds,
      summary.mode == "simulate" ? fmt::format(" of virtual time in {:.1f} s", summary.wall_seconds) : "",
      summary.samples, summary.tokens ? fmt::format(" of {} tokens", *summary.tokens) : "",
      summary.samples_per_second);
  if (summary.seconds_to_target)
    fmt::format_to(out,
                   "target    reached after {:.1f} s; steps under way and settling followed, so the final "
                   "accuracy differs\n",
                   *summary.seconds_to_target);
  if (!alone)
    fmt::format_to(out, "gossip    {} exchanges ({} aborted, {} rejected), {} sent\n",
                   summary.exchanges.completed, summary.exchanges.aborted, summary.exchanges.rejected,
                   format_bytes(summary.bytes_sent));
  text += devices_of_peers(summary);
  fmt::format_to(out, "results   {}\n", folder);
  return text;
}

}  // namespace starling::cli
