#include "node/peer/shutdown.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/text.h"
#include "training/learning/evaluator.h"
#include "transport/coroutines.h"

namespace starling::node {
namespace {

// From a signal to the end of the process: the core's leave_limit, then the longer of these two (both run at
// the same time), then Process::kLastReportLimit and kThreadLimit.
constexpr Duration kFlushLimit = std::chrono::milliseconds(700);
constexpr Duration kWriteLimit = std::chrono::milliseconds(700);  // of a peer that was asked to leave
constexpr Duration kThreadLimit = std::chrono::milliseconds(250);

}  // namespace

void Shutdown::save_before_settling() {
  if (!started_.process.is_launched() || !started_.process.saves()) return;
  started_.process.save({started_.process.file(listening_.self().name + ".before-settling")},
                        *lives_.built->replica, lives_.built->experiment,
                        [this](std::string path) { path_before_settling_ = std::move(path); });
}

void Shutdown::hurry() {
  deadline_ = std::min(deadline_, Clock::now() + kWriteLimit);
  changed_.raise();
}

void Shutdown::begin(gossip::Finish::How how, const std::string& why, bool other_version) {
  if (started_.stage == PeerStage::leaving) hurry();
  started_.advance(PeerStage::ending);
  started_.finish = how;
  outcome_.left = how == gossip::Finish::How::left;
  if (how == gossip::Finish::How::failed)
    outcome_ = {other_version || started_.other_version ? 4 : started_.restart_may_help ? 1 : 2, why};
  if (how == gossip::Finish::How::finished && !started_.process.is_launched()) doubt_ = why;
  teller_.manager().stopping();
  if (lives_.equipped) lives_.equipped->trainer->stop();
  transport::spawn(started_.io.get_executor(), run());
}

std::string export_path(const DaemonOptions& options, const std::string& name) {
  const std::string& to = options.export_to;
  return to.ends_with('/') ? training::free_path(to + name, ".safetensors") : to;
}

// Whether there are final parameters.
bool Shutdown::has_result() const {
  return teller_.has_trained() && started_.finish != gossip::Finish::How::failed && outcome_.exit_code == 0;
}

// Where the final parameters go if `path` cannot be written any more: a long run must not lose its model. A
// launcher expects its own paths.
std::vector<std::string> Shutdown::with_other_places(const std::string& path) const {
  std::vector<std::string> places = {path};
  if (started_.process.is_launched()) return places;
  const std::string& name = listening_.self().name;
  places.push_back(training::free_path("./" + name, ".safetensors"));
  std::error_code none;
  if (const auto temporary = std::filesystem::temp_directory_path(none); !none)
    places.push_back(training::free_path((temporary / name).string(), ".safetensors"));
  return places;
}

// Queues all writes for the disk's thread, in this order.
void Shutdown::save_all() {
  const DaemonOptions& options = started_.options;
  const bool trained = has_result();
  if (trained && started_.process.saves()) {
    started_.process.save(with_other_places(started_.process.file(listening_.self().name)),
                          *lives_.built->replica, lives_.built->experiment,
                          [this](std::string path) { final_path_ = std::move(path); });
  }
  export_to_ = export_path(options, listening_.self().name);
  if (trained && !export_to_.empty()) {
    started_.process.save(with_other_places(export_to_), *lives_.built->replica, lives_.built->experiment,
                          [this](std::string path) { exported_path_ = std::move(path); });
  }
  keeper_.write_cache();
  if (trained) keeper_.write_last_checkpoint();
  if (trained && started_.finish == gossip::Finish::How::finished && !started_.process.is_launched())
    started_.disk.run([this] { judge_final_replica(); });
  started_.disk.run([] {},
                    [this] {  // all files are written
                      deadline_ = Clock::time_point::min();
                      changed_.raise();
                    });
}

asio::awaitable<void> Shutdown::run() {
  teller_.log_faults();
  listening_.exchanger().close();
  if (OutsideTrainer* const outside = lives_.outside())
    outside->say_over(outcome_.error.empty() ? "the peer is " + teller_.state() : outcome_.error);
  else if (Attachment* const attachment = listening_.attachment())
    attachment->over(outcome_.error.empty() ? "the peer has left" : outcome_.error);
  save_all();
  co_await listening_.links().shut_down(kFlushLimit);
  while (Clock::now() < deadline_) co_await changed_.wait_until(deadline_);
  report();
  started_.process.stop();
  started_.io.stop();
}

void Shutdown::report() {
  const bool trained = has_result();
  const auto check = [this](const std::string& wanted, const std::string& written) {
    if (wanted == written) return;
    outcome_ = {1, "the final parameters could not be written to " + wanted +
                       (written.empty() ? "" : "; they are in " + written)};
  };
  if (trained && started_.process.saves()) check(started_.process.file(listening_.self().name), final_path_);
  if (trained && !export_to_.empty()) check(export_to_, exported_path_);
  if (!doubt_.empty() && outcome_.exit_code == 0) outcome_ = {3, doubt_};
  auto last = teller_.report(training::PeerReport::Kind::finished);
  last.path = final_path_;
  last.path_before_settling = path_before_settling_;
  started_.process.report_last(last);
  for (const std::string& path : {final_path_, exported_path_})
    if (!path.empty()) spdlog::info("parameters written to {}", path);
  if (trained) spdlog::info("memory: at most {:.1f} MB", 1e-6 * static_cast<double>(most_resident_bytes()));
}

// On the disk's thread. The exchanger is closed and the workers have stopped, so nothing changes the replica.
// The evaluator uses the workers' memory.
void Shutdown::judge_final_replica() const {
  lives_.equipped->trainer->give_back();
  ::malloc_trim(0);  // small blocks too, which would stay in the heaps of the workers' threads
  Replica& replica = *lives_.built->replica;
  if (replica.is_outside()) return;  // only the trainer can evaluate it
  replica.arena.wait();
  const auto score =
      training::Evaluator(replica.plan, replica.backend(), replica.data.test).evaluate(replica.arena.data());
  spdlog::info("accuracy {}, loss {:.4f} on {} test samples of {}", format_percent(score.accuracy),
               score.loss, replica.data.test.size(), replica.data.name);
}

void Shutdown::end_process_soon(std::shared_ptr<std::atomic<bool>> over, LastWords last_words) const {
  std::thread([outcome = outcome_, over = std::move(over), last_words = std::move(last_words)] {
    std::this_thread::sleep_for(kThreadLimit);
    if (!over->exchange(true)) std::_Exit(last_words(outcome));
  }).detach();
}

}  // namespace starling::node
