#include "node/peer/keeper.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "base/random.h"
#include "node/peer/entropy.h"

namespace starling::node {

void Keeper::add_contacts(gossip::PeerOptions& peer) const {
  for (const CachedPeer& member : listening_.remembered().members)
    if (std::ranges::count(peer.contacts, member.address) == 0) peer.contacts.push_back(member.address);
}

void Keeper::search_swarm(gossip::PeerOptions& peer) const {
  const DaemonOptions& options = started_.options;
  const Remembered& remembered = listening_.remembered();
  peer.join = peer.contacts;
  peer.manifest = remembered.manifest;
  peer.unwelcomed.begins =
      from_seconds(to_seconds(options.cache.begin_after) * Random(entropy()).uniform(1, 1.5));
  spdlog::info("searching for the swarm in {}: {} addresses", options.state, remembered.members.size());
  const std::string ignored = ignored_settings(options.given, options.experiment, remembered.manifest);
  if (ignored.empty()) return;
  spdlog::warn("the run in {} continues with its own settings; ignored: {}; another run needs another folder",
               options.state, ignored);
}

// ---- the cache ----

CachedSwarm Keeper::swarm() const {
  const Running& running = *lives_.running;
  return {listening_.self().swarm, running.manifest,
          peers_to_cache(running.core.view().membership, listening_.remembered().members)};
}

// Only once the replica is built: a run that this peer cannot take part in is not worth remembering.
void Keeper::write_cache() {
  PeerCache* const cache = listening_.remembered().cache.get();
  if (cache == nullptr || !lives_.equipped) return;
  ++cache_writes_;
  started_.disk.run([cache, text = to_json(swarm())] { return cache->write(text); },
                    [this](const Status& written) {
                      --cache_writes_;
                      if (!written && !cache_failing_) spdlog::warn("{}", written.error().message);
                      cache_failing_ = !written;
                    });
}

void Keeper::keep_cache() {
  if (listening_.remembered().cache == nullptr || started_.stage == PeerStage::ending) return;
  if (cache_writes_ == 0) write_cache();  // else the disk takes longer than the interval
  cache_timer_.expires_after(started_.options.cache.interval);
  cache_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) keep_cache();
  });
}

// ---- snapshots and checkpoints ----

void Keeper::leave_snapshot_if_due() {
  if (!lives_.is_running() || lives_.running->phase() != wire::Phase::training) return;
  const auto due = started_.process.due_snapshot(lives_.running->core.view().swarm_samples,
                                                 lives_.built->replica->epoch_samples);
  if (!due) return;
  auto report = teller_.report(training::PeerReport::Kind::snapshot);
  report.snapshot = *due;
  started_.process.save({started_.process.file(listening_.self().name + ".snapshot-" + std::to_string(*due))},
                        *lives_.built->replica, lives_.built->experiment,
                        [this, report = std::move(report)](std::string path) mutable {
                          if (path.empty()) return;
                          report.path = std::move(path);
                          started_.process.report(report);
                        });
}

// The state is copied while the workers train, and written on the disk's thread.
void Keeper::checkpoint_if_due() {
  const bool works = started_.stage == PeerStage::training || started_.stage == PeerStage::serving;
  Checkpointer* const checkpoints = listening_.checkpoints();
  if (checkpoints == nullptr || !works || !lives_.is_running()) return;
  Trainer& trainer = *lives_.equipped->trainer;
  const std::uint64_t steps = trainer.steps();
  if (!checkpoints->is_due(steps)) return;
  if (started_.stage == PeerStage::serving) {
    checkpoints->begins(steps);
    return write_checkpoint([&trainer] { return trainer.remains(); });
  }
  const bool asked = trainer.capture([this](std::shared_ptr<training::PeerState> state) {
    asio::post(started_.io, [this, state = std::move(state)] {
      if (started_.stage != PeerStage::ending) write_checkpoint([state] { return std::move(*state); });
    });
  });
  if (asked) checkpoints->begins(steps);
}

void Keeper::write_last_checkpoint() {
  if (listening_.checkpoints() != nullptr)
    write_checkpoint([this] { return lives_.equipped->trainer->remains(); });
}

CheckpointFacts Keeper::checkpoint_facts() const {
  const auto view = lives_.running->core.view();
  CheckpointFacts facts;
  facts.run = swarm();
  facts.model = {lives_.built->experiment.model.name, lives_.built->experiment.model.layers};
  facts.data = lives_.built->replica->about_data;
  facts.source = lives_.built->experiment.data.source;
  facts.name = listening_.self().name;
  facts.id = listening_.self().id;
  facts.incarnation = view.membership.self().incarnation;
  facts.order = listening_.remembered().order_of(listening_.self().name);
  facts.earlier_samples = listening_.remembered().earlier.samples;
  facts.counted_before = view.samples_before;
  facts.others_samples = lives_.running->others_samples();
  facts.elapsed = started_.now() - view.run_start;
  return facts;
}

// Runs state() on the disk's thread.
void Keeper::write_checkpoint(std::function<training::PeerState()> state) {
  started_.disk.run(
      [this, state = std::move(state), facts = checkpoint_facts()] {
        return listening_.checkpoints()->write(lives_.built->replica->plan.layout, state(), facts);
      },
      [this](const Result<std::string>& written) {
        listening_.checkpoints()->ends();
        report_checkpoint(written);
      });
}

// The log has all checkpoints and every new reason for a failure; the events have those that are news.
void Keeper::report_checkpoint(const Result<std::string>& written) {
  const auto now = std::chrono::steady_clock::now();
  const std::string& what = written ? *written : written.error().message;
  const auto news = written ? checkpoint_news_.written(what, now) : checkpoint_news_.failed(what, now);
  const bool logged = written || listening_.checkpoints()->is_news(what);
  if (news) {
    started_.events.say(written ? spdlog::level::info : spdlog::level::warn, "checkpoint", *news);
  } else if (written) {
    spdlog::info("checkpoint written: {}", what);
  } else if (logged) {
    spdlog::warn("no checkpoint, but training continues: {}", what);
  }
}

}  // namespace starling::node
