#include "node/peer/keeper.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "base/random.h"
#include "node/peer/entropy.h"

namespace starling::node {

// ---- what is there at the start ----

Status Keeper::open() {
  if (Status opened = open_cache(); !opened) return opened;
  return find_checkpoint();
}

Status Keeper::open_cache() {
  if (parts_.options.state.empty()) return Done{};
  auto cache = PeerCache::open(parts_.options.state);
  if (!cache) return Error{"--state: " + cache.error().message};
  cache_ = std::move(*cache);
  auto loaded = cache_->load(parts_.options.swarm);
  if (!loaded.warning.empty()) spdlog::warn("{}", loaded.warning);
  if (loaded.swarm) {
    remembered_manifest_ = std::move(loaded.swarm->manifest);
    remembered_ = std::move(loaded.swarm->members);
  }
  return Done{};
}

Status Keeper::find_checkpoint() {
  const PeerOptions& options = parts_.options;
  if (options.resume.empty()) return Done{};
  // One command line both begins a peer and resumes it: the first time the folder is empty or missing.
  const bool own_folder = options.checkpoints.folder == options.resume;
  std::error_code ignored;
  if (!own_folder || std::filesystem::exists(options.resume, ignored)) {
    auto found = find_resumption(options.resume, options.name);
    if (!found) return Error{"--resume: " + found.error().message};
    parts_.resumed = std::move(*found);
  }
  if (!parts_.resumed) {
    if (!own_folder) return Error{"--resume: the folder " + options.resume + " has no checkpoint"};
    spdlog::info("no checkpoint in {} yet: the peer begins without one", options.resume);
    return Done{};
  }
  const Resumption& resumed = *parts_.resumed;
  for (const std::string& warning : resumed.warnings)
    parts_.events.say(spdlog::level::warn, "checkpoint", warning);
  parts_.events.say(spdlog::level::info, "checkpoint",
                    fmt::format("resumes from {}: {} steps, {} samples", resumed.path, resumed.earlier.steps,
                                resumed.earlier.samples));
  if (!options.join.empty()) return Done{};
  auto experiment = resumed_experiment(resumed, parts_.experiment, options.given, options.data);
  if (!experiment) return Error{"--resume: " + experiment.error().message};
  parts_.experiment = std::move(*experiment);
  // The cache is empty: the swarm may still be where it was when the checkpoint was written.
  if (cache_ && remembered_manifest_.model.empty()) {
    remembered_manifest_ = resumed.run.manifest;
    remembered_ = resumed.run.members;
  }
  return Done{};
}

Status Keeper::open_checkpoints() {
  std::erase_if(remembered_, [&](const CachedPeer& peer) { return peer.address == parts_.self.address; });
  const CheckpointOptions& options = parts_.options.checkpoints;
  if (options.folder.empty()) return Done{};
  auto opened = Checkpointer::open(options, parts_.self.name, parts_.resumed ? &*parts_.resumed : nullptr);
  if (!opened) return Error{"--checkpoints: " + opened.error().message};
  checkpointer_ = std::move(*opened);
  return Done{};
}

void Keeper::add_contacts(gossip::PeerOptions& peer) const {
  for (const CachedPeer& member : remembered_)
    if (std::ranges::count(peer.contacts, member.address) == 0) peer.contacts.push_back(member.address);
}

void Keeper::search_swarm(gossip::PeerOptions& peer) const {
  const PeerOptions& options = parts_.options;
  peer.join = peer.contacts;
  peer.manifest = remembered_manifest_;
  peer.begin_after = from_seconds(to_seconds(options.begin_after) * Random(entropy()).uniform(1, 1.5));
  spdlog::info("searching for the swarm in {}: {} addresses", options.state, remembered_.size());
  const std::string ignored = ignored_settings(options.given, options.experiment, remembered_manifest_);
  if (ignored.empty()) return;
  spdlog::warn("the run in {} continues with its own settings; ignored: {}; another run needs another folder",
               options.state, ignored);
}

// ---- the cache ----

// Only once the replica is built: a run that this peer cannot take part in is not worth remembering.
void Keeper::write_cache() {
  if (!cache_ || !parts_.trainer) return;
  ++cache_writes_;
  const CachedSwarm swarm{parts_.self.swarm, *parts_.manifest,
                          peers_to_cache(parts_.core->view().membership, remembered_)};
  parts_.disk.run([this, text = to_json(swarm)] { return cache_->write(text); },
                  [this](const Status& written) {
                    --cache_writes_;
                    if (!written && !cache_failing_) spdlog::warn("{}", written.error().message);
                    cache_failing_ = !written;
                  });
}

void Keeper::keep_cache() {
  if (!cache_ || parts_.life == PeerLife::ending) return;
  if (cache_writes_ == 0) write_cache();  // else the disk takes longer than the interval
  cache_timer_.expires_after(parts_.options.cache_interval);
  cache_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) keep_cache();
  });
}

// ---- snapshots and checkpoints ----

void Keeper::leave_snapshot_if_due() {
  if (!parts_.is_running() || parts_.phase() != wire::Phase::training) return;
  const auto due =
      parts_.process.due_snapshot(parts_.core->view().swarm_samples, parts_.replica->epoch_samples);
  if (!due) return;
  auto report = teller_.report(training::PeerReport::Kind::snapshot);
  report.snapshot = *due;
  parts_.process.save(parts_.process.file(parts_.self.name + ".snapshot-" + std::to_string(*due)),
                      *parts_.replica, parts_.experiment,
                      [this, report = std::move(report)](std::string path) mutable {
                        if (path.empty()) return;
                        report.path = std::move(path);
                        parts_.process.report(report);
                      });
}

// The state is copied while the workers train, and written on the disk's thread.
void Keeper::checkpoint_if_due() {
  const bool works = parts_.life == PeerLife::training || parts_.life == PeerLife::serving;
  if (!checkpointer_ || !works || !parts_.is_running()) return;
  Trainer& trainer = *parts_.trainer;
  const std::uint64_t steps = trainer.steps();
  if (!checkpointer_->is_due(steps)) return;
  if (parts_.life == PeerLife::serving) {
    checkpointer_->begins(steps);
    return write_checkpoint([&trainer] { return trainer.remains(); });
  }
  const bool asked = trainer.capture([this](std::shared_ptr<training::PeerState> state) {
    asio::post(parts_.io, [this, state = std::move(state)] {
      if (parts_.life != PeerLife::ending) write_checkpoint([state] { return std::move(*state); });
    });
  });
  if (asked) checkpointer_->begins(steps);
}

void Keeper::write_last_checkpoint() {
  if (checkpointer_) write_checkpoint([this] { return parts_.trainer->remains(); });
}

CheckpointFacts Keeper::checkpoint_facts() const {
  const auto view = parts_.core->view();
  CheckpointFacts facts;
  facts.run = {parts_.self.swarm, *parts_.manifest, peers_to_cache(view.membership, remembered_)};
  facts.model = {parts_.experiment.model.name, parts_.experiment.model.layers};
  facts.tokenizer = parts_.replica->data.tokenizer_text();
  facts.source = parts_.experiment.data.source;
  facts.name = parts_.self.name;
  facts.id = parts_.self.id;
  facts.incarnation = view.membership.self().incarnation;
  facts.order = parts_.own_order();
  facts.earlier_samples = parts_.resumed ? parts_.resumed->earlier.samples : 0;
  facts.counted_before = view.samples_before;
  facts.others_samples = parts_.others_samples();
  facts.elapsed = parts_.now() - view.run_start;
  return facts;
}

// Runs state() on the disk's thread.
void Keeper::write_checkpoint(std::function<training::PeerState()> state) {
  parts_.disk.run(
      [this, state = std::move(state), facts = checkpoint_facts()] {
        return checkpointer_->write(parts_.replica->plan.layout, state(), facts);
      },
      [this](const Result<std::string>& written) {
        checkpointer_->ends();
        report_checkpoint(written);
      });
}

// The log has all checkpoints and every new reason for a failure; the events have those that are news.
void Keeper::report_checkpoint(const Result<std::string>& written) {
  const auto now = std::chrono::steady_clock::now();
  const std::string& what = written ? *written : written.error().message;
  const auto news = written ? checkpoint_news_.written(what, now) : checkpoint_news_.failed(what, now);
  const bool logged = written || checkpointer_->is_news(what);
  if (news) {
    parts_.events.say(written ? spdlog::level::info : spdlog::level::warn, "checkpoint", *news);
  } else if (written) {
    spdlog::info("checkpoint written: {}", what);
  } else if (logged) {
    spdlog::warn("no checkpoint, but training continues: {}", what);
  }
}

}  // namespace starling::node
