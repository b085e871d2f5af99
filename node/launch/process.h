// What every peer's process does besides training, with or without a core: it leaves on a signal, follows its
// launcher's commands, ticks four times a second, and saves replicas on the disk's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "base/time.h"
#include "node/launch/process_options.h"
#include "node/work/background.h"
#include "node/work/replica.h"
#include "training/runs/experiment/control.h"

namespace starling::node {

// The connection to the launcher that started this peer: reports go out, commands come in, and its end of
// file means that the launcher is gone. It never blocks the daemon: if the launcher does not read, reports
// are dropped.
class LauncherLink {
 public:
  // Takes ownership of `fd`, one end of a socket pair.
  LauncherLink(const asio::any_io_executor& executor, int fd,
               std::function<void(std::string command)> on_command, std::function<void()> on_gone);
  ~LauncherLink();

  void report(const training::PeerReport& report);
  // Writes the queue and the last report; blocks for at most `at_most`.
  void report_last(const training::PeerReport& report, Duration at_most);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// "loss 0.1234", of the lines of a log; "loss unknown" also if it is not finite.
std::string loss_text(std::optional<double> loss);

struct ProcessEvents {
  std::function<void()> leave;  // a signal, the launcher's command, or the launcher or the parent is gone
  std::function<void(const std::string& command)> command;  // the launcher's, except for "leave"
  std::function<void()> tick;
};

// Whether this process has ended. REQUIRES: it has existed.
bool has_ended(int process);

class Process {
 public:
  static constexpr Duration kTickInterval = std::chrono::milliseconds(250);
  static constexpr Duration kLogInterval = std::chrono::seconds(5);
  static constexpr Duration kLastReportLimit = std::chrono::milliseconds(300);
  static constexpr std::size_t kSavesMax = 4;  // copies of the parameters that wait for the disk

  // `disk` may be constructed later, and ends first.
  Process(asio::io_context& io, const ProcessOptions& options, Background& disk);

  // Catches SIGINT, SIGTERM and, unless it is ignored, SIGHUP from now on. The first one is a leave event; a
  // SIGINT at least a second later ends the process at once with exit code 130, and other signals have no
  // effect.
  void catch_signals();
  // Reports signals and the end of ProcessOptions::parent, and ticks: the first time at once.
  void start(ProcessEvents events);
  void connect_launcher(const training::PeerReport& first);
  void stop();  // ends signals, commands and ticks

  bool is_launched() const { return launcher_ != nullptr; }
  void report(const training::PeerReport& report);
  // Blocks for at most kLastReportLimit.
  void report_last(const training::PeerReport& report);
  Duration lag() const { return lag_; }  // the delay of the last tick
  bool is_time_to_log();                 // true once in kLogInterval

  // The number, from 1, of the snapshot that is due at this progress; each is due once. nullopt: none is due,
  // or kSavesMax copies wait for the disk.
  std::optional<std::uint64_t> due_snapshot(std::uint64_t swarm_samples, std::uint64_t epoch_samples);
  std::string file(const std::string& name) const { return options_.out + "/" + name + ".safetensors"; }
  bool saves() const { return !options_.out.empty(); }
  // Copies the parameters now and writes them on the disk's thread, to the first of these paths that can be
  // written. done(path) runs on the io_context; the path is empty if there was none. From any thread.
  // REQUIRES: there is a path.
  void save(std::vector<std::string> paths, Replica& replica, const training::Experiment& experiment,
            std::function<void(std::string path)> done);

 private:
  using Clock = std::chrono::steady_clock;
  void watch_signals();
  void watch_parent();
  void tick();

  const ProcessOptions options_;
  ProcessEvents events_;
  asio::io_context& io_;
  Background& disk_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor parent_;
  asio::steady_timer timer_;
  std::unique_ptr<LauncherLink> launcher_;
  std::optional<Clock::time_point> signalled_;  // the first time
  bool launcher_gone_ = false;
  Duration lag_{0};
  Clock::time_point last_log_ = Clock::now();
  std::uint64_t snapshots_ = 0;
  std::atomic<std::size_t> saves_{0};  // under way
};

}  // namespace starling::node
