// starling top: the swarm as a running peer sees it, redrawn every second in a terminal.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/program.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/look/ask.h"
#include "cli/shell/output.h"
#include "lab/interrupts.h"
#include "node/front/answers.h"
#include "node/front/situation.h"

namespace starling::cli {
namespace {

constexpr unsigned kMostFrames = 1'000'000'000;

// The order of the rows: failing members first, then stragglers.
int concern(const node::MemberStatus& member) {
  if (member.state == "failed") return 0;
  if (member.state == "suspect" || member.state == "quarantined") return 1;
  if (member.slowdown.value_or(1) >= node::kStraggles) return 2;
  return member.state == "left" ? 4 : 3;
}

std::string table(const node::PeerStatus& status, std::vector<node::MemberStatus> members, std::size_t rows) {
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    if (concern(a) != concern(b)) return concern(a) < concern(b);
    return concern(a) == 2 && a.slowdown > b.slowdown;
  });
  std::erase_if(members, [](const auto& member) { return member.earlier_life; });
  double speed = 0;
  for (const auto& member : members)
    if (member.state == "alive") speed += member.samples_per_second.value_or(0);
  std::string text = fmt::format(
      "{} at {}, swarm '{}': {} on {}, {}\n{} of {} members live, {:.0f} samples/s, {:.2f} epochs, loss {}, "
      "accuracy {}, distance to partners {}\n{}\n\n",
      status.name, status.address, status.swarm, status.model, status.data, status.topology,
      status.members_live, status.members_known, speed,
      status.units.epoch_samples > 0
          ? static_cast<double>(status.swarm_samples) / static_cast<double>(status.units.epoch_samples)
          : 0.0,
      or_dash(status.loss, "{:.4f}"), accuracy_text(status), or_dash(status.distance, "{:.3g}"),
      status.situation);
  std::size_t width = 6;
  for (const auto& member : members) width = std::max(width, member.name.size());
  text += fmt::format("{:<{}}  {:<11}  {:<10}  {:>10}  {:>9}  {:>8}  {:>8}  {:>10}\n", "member", width,
                      "state", "device", "steps", "samples/s", "slowdown", "loss", "last heard");
  std::size_t shown = 0;
  for (const auto& member : members) {
    if (++shown > rows) {
      text += fmt::format("... and {} more\n", members.size() - rows);
      break;
    }
    const bool straggles = member.slowdown.value_or(1) >= node::kStraggles;
    text += fmt::format("{:<{}}  {:<11}  {:<10}  {:>10}  {:>9}  {:>8}  {:>8}  {:>10}\n", member.name, width,
                        condition(member), member.device.substr(0, 10), member.steps,
                        or_dash(member.samples_per_second, "{:.0f}"),
                        (member.slowdown ? format_factor(*member.slowdown) : "-") + (straggles ? " !" : ""),
                        or_dash(member.loss, "{:.4f}"),
                        member.this_peer ? "itself" : or_dash(member.last_heard_seconds, "{:.1f} s"));
  }
  return text;
}

// The rows that fit the terminal; all if standard output is not a terminal.
std::size_t rows_for_members(bool terminal) {
  constexpr std::size_t kOthers = 8;
  winsize size{};
  if (!terminal || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= kOthers) return SIZE_MAX;
  return size.ws_row - kOthers;
}

int run_top(Arguments arguments) {
  const auto peer = peer_to_ask(arguments);
  if (!peer) return refuse(arguments, peer.error());
  const bool terminal = can_redraw(STDOUT_FILENO);
  unsigned frames = terminal ? kMostFrames : 1;
  if (Status read = read_number(arguments, "--frames", 1U, kMostFrames, frames); !read)
    return refuse(arguments, read.error());
  const lab::Interrupts interrupts;
  for (unsigned frame = 0; frame < frames && !interrupts.requested(); ++frame) {
    pollfd interrupted{interrupts.fd(), POLLIN, 0};
    if (frame > 0) ::poll(&interrupted, 1, 1000);
    if (interrupts.requested()) break;
    const auto status_text = get(*peer, "/api/v1/status");
    if (!status_text) return fail(arguments, status_text.error());
    const auto members_text = get(*peer, "/api/v1/members");
    if (!members_text) return fail(arguments, members_text.error());
    const auto status = node::parse_status(*status_text);
    const auto members = node::parse_members(*members_text);
    if (!status || !members)
      return fail(arguments, to_string(peer->at) + " is not a Starling peer's --http address");
    const std::string text = table(*status, *members, rows_for_members(terminal));
    print_out(terminal ? "\033[H\033[J" + cut_to_columns(text, terminal_columns(STDOUT_FILENO)) : text);
    std::fflush(stdout);
  }
  return kExitDone;
}

}  // namespace

Command top_command() {
  return {"top",
          "show the swarm as a running peer sees it, live; failures and stragglers first",
          {},
          {at_flag(),
           {"--frames", "N", "stop after N tables (default: at Ctrl-C; 1 if the output is not a terminal)"}},
          run_top,
          "starling top --at 127.0.0.1:7180"};
}

}  // namespace starling::cli
