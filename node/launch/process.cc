#include "node/launch/process.h"

#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

namespace starling::node {
namespace {

constexpr int kKilled = 130;

}  // namespace

Process::Process(asio::io_context& io, const ProcessOptions& options, Background& disk)
    : options_(options), io_(io), disk_(disk), signals_(io), timer_(io) {}

void Process::catch_signals() {
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
}

void Process::start(ProcessEvents events) {
  events_ = std::move(events);
  watch_signals();
  tick();
}

void Process::watch_signals() {
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    if (signalled_) std::_Exit(kKilled);
    signalled_ = true;
    events_.leave();
    watch_signals();
  });
}

void Process::connect_launcher(const training::PeerReport& first) {
  if (options_.control_fd < 0) return;
  launcher_ = std::make_unique<LauncherLink>(
      io_.get_executor(), options_.control_fd,
      [this](const std::string& command) {
        if (command == training::kLeaveCommand) return events_.leave();
        events_.command(command);
      },
      [this] {
        launcher_gone_ = true;
        events_.leave();
      });
  launcher_->report(first);
}

void Process::tick() {
  events_.tick();
  timer_.expires_after(kTickInterval);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    lag_ = Clock::now() - timer_.expiry();
    tick();
  });
}

void Process::stop() {
  timer_.cancel();
  signals_.cancel();
  launcher_.reset();
}

void Process::report(const training::PeerReport& report) {
  if (launcher_) launcher_->report(report);
}

void Process::report_last(const training::PeerReport& report) {
  if (launcher_ && !launcher_gone_) launcher_->report_last(report, kLastReportLimit);
}

bool Process::is_time_to_log() {
  if (Clock::now() - last_log_ < kLogInterval) return false;
  last_log_ = Clock::now();
  return true;
}

std::optional<std::uint64_t> Process::due_snapshot(std::uint64_t swarm_samples, std::uint64_t epoch_samples) {
  if (options_.snapshots == 0 || !saves()) return std::nullopt;
  const std::uint64_t due = swarm_samples * options_.snapshots / epoch_samples;
  if (due <= snapshots_ || saves_ >= kSavesMax) return std::nullopt;
  snapshots_ = due;
  return due;
}

void Process::save(const std::string& path, Replica& replica, const training::Experiment& experiment,
                   std::function<void(std::string path)> done) {
  std::vector<float> parameters(replica.arena.size());
  replica.arena.read(0, parameters);
  ++saves_;
  disk_.run(
      [path, &replica, &experiment, parameters = std::move(parameters)] {
        const Status written = write_replica(path, replica, experiment, parameters);
        if (!written) spdlog::error("{}", written.error().message);
        return written ? path : std::string();
      },
      [this, done = std::move(done)](std::string written) {
        --saves_;
        done(std::move(written));
      });
}

}  // namespace starling::node
