#include "gossip/joining.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

void Joining::start(Actions& out) {
  const PeerOptions& options = run_.options;
  for (const auto& address : options.contacts) run_.membership.add_contact(address);
  if (options.join.empty()) return begin_run(out);
  for (const auto& address : options.join) run_.membership.add_contact(address);
  next_join_ = run_.now;
  if (options.unwelcomed.begins) begin_at_ = run_.now + *options.unwelcomed.begins;
  if (options.unwelcomed.fails) fails_at_ = run_.now + *options.unwelcomed.fails;
}

void Joining::begin_run(Actions& out) {
  if (!locked_out_.empty()) {
    return run_.finish(Finish::How::failed,
                       "the swarm that this peer remembers lives and does not let it in, so it does not "
                       "begin the run anew: " +
                           locked_out_,
                       out, outdated_);
  }
  stop();
  beginner_ = true;
  run_.membership.add_samples(run_.options.earlier.swarm_samples);
  manifest_ = run_.options.manifest;
  out.push_back(Prepare{*manifest_});
}

void Joining::give_up(Actions& out) {
  const bool lost = gone_until_ <= run_.now;
  stop();
  run_.finish(Finish::How::failed,
              std::string(lost ? "the peer to join was there and has not come back in half a minute"
                               : "no member has let this peer in within its time to join") +
                  (obstacle_.empty() ? std::string() : ": " + obstacle_),
              out, outdated_);
}

void Joining::waits(PeerId peer, std::string why, Actions& out) {
  obstacle_ = why;
  out.push_back(Notice{Notice::What::waiting, peer, std::move(why)});
}

void Joining::send_joins(Actions& out) {
  for (std::size_t i = 0; i < run_.options.join.size(); ++i) {
    if (hopeless_[i]) continue;
    const Address& address = run_.options.join[i];
    out.push_back(Send{{{}, address}, wire::Join{run_.membership.self(), run_.options.program}});
  }
  next_join_ = run_.now + varied(run_.random, delay_);
  delay_ = run_.options.unwelcomed.retry.next(delay_);
}

void Joining::unreachable(const Unreachable& unreachable, Actions& out) {
  if (manifest_) return;
  bool hope = run_.options.unwelcomed.begins.has_value();
  bool tried = false;
  for (std::size_t i = 0; i < run_.options.join.size(); ++i) {
    if (run_.options.join[i] == unreachable.address) {
      tried = true;
      if (unreachable.final) hopeless_[i] = true;
      if (unreachable.locked_out || unreachable.other_version) locked_out_ = unreachable.why;
      outdated_ = outdated_ || unreachable.other_version;
    }
    hope = hope || !hopeless_[i];
  }
  if (!tried) return;
  if (!hope) return run_.finish(Finish::How::failed, unreachable.why, out, outdated_);
  waits({}, unreachable.why, out);
  if (unreachable.was_reached) gone_until_ = std::min(gone_until_, run_.now + run_.options.recovery_limit);
}

void Joining::welcomed(const Received& from, const wire::Welcome& welcome, Actions& out) {
  Membership& membership = run_.membership;
  if (manifest_) {  // another address has already welcomed it
    membership.merge(run_.now, from.from, welcome.members, out);
    return membership.heard(run_.now, from.from, from.address, out);
  }
  manifest_ = welcome.manifest;
  run_.run_start = run_.now - welcome.elapsed;
  membership.welcomed(run_.now, from.from, welcome.members, welcome.retired_samples, out, welcome.elapsed);
  membership.heard(run_.now, from.from, from.address, out);
  membership.sync_with(membership.view().reply_to(from.from, from.address),
                       out);  // the members that the Welcome left out
  take_earlier_samples(welcome.members);
  stop();
  out.push_back(Prepare{*manifest_});
}

// The swarm may know this peer from an earlier life, of which the checkpoint may know more.
void Joining::take_earlier_samples(std::span<const wire::Member> members) {
  const auto own = std::ranges::find(members, run_.id(), &wire::Member::id);
  if (own == members.end()) return;
  const wire::Progress& last = run_.options.earlier.last;
  run_.samples_before = std::max(own->samples, last.id == run_.id() ? last.samples : 0);
  run_.membership.set_progress(run_.now, run_.steps(), run_.samples_before);
}

// The address to join of a member that states this one: it may be asked at another one than it states.
Address Joining::asked_at(const Address& stated) const {
  const auto& join = run_.options.join;
  if (std::ranges::find(join, stated) != join.end()) return stated;
  for (std::size_t i = 0; i < join.size(); ++i)
    if (!hopeless_[i]) return join[i];
  return stated;
}

void Joining::refused(const Received& from, const wire::Refusal& refusal, Actions& out) {
  if (!manifest_ && refusal.reason == wire::RefusalReason::wrong_version) {
    return unreachable({.address = asked_at(from.address),
                        .final = true,
                        .why = to_string(from.address) + " says: " + refusal.text,
                        .id = from.from,
                        .other_version = true},
                       out);
  }
  run_.membership.heard(run_.now, from.from, from.address, out);
  if (manifest_) {
    const Record* const record = run_.membership.find(from.from);
    if (record != nullptr && record->member.phase == wire::Phase::joining)
      out.push_back(Notice{Notice::What::unfit, from.from,
                           record->member.name + " cannot take part in this run: " + refusal.text});
    return;
  }
  waits(from.from, to_string(from.address) + " says: " + refusal.text, out);
  gone_until_ = kNever;  // a peer is there
}

std::string unknown_to(const wire::Program& program, const wire::ManifestEntry& setting) {
  constexpr std::size_t kShownMax = 64;
  bool key = false, values = false;
  for (const std::string& known : program.knows) {
    if (known == setting.key) key = true;
    if (!known.starts_with(setting.key + "=")) continue;
    if (known.substr(setting.key.size() + 1) == setting.value) return "";
    values = true;
  }
  if (!key) return setting.key;
  if (!values) return "";
  return setting.value.size() > kShownMax ? setting.key : setting.key + " = " + setting.value;
}

// Programs earlier than 0.4 do not say what they know, and find out themselves.
bool Joining::is_outdated(const Received& from, const wire::Join& join, Actions& out) {
  if (!manifest_ || join.program.knows.empty()) return false;
  for (const wire::ManifestEntry& setting : manifest_->settings) {
    const std::string unknown = unknown_to(join.program, setting);
    if (unknown.empty()) continue;
    const std::string theirs =
        join.program.version.empty() ? "this version" : "Starling " + join.program.version;
    const std::string told = "the run has the setting " + unknown + ", which " + theirs +
                             " does not know: install the version of this peer, Starling " +
                             run_.options.program.version;
    out.push_back(Send{run_.membership.view().reply_to(from.from, from.address),
                       wire::Refusal{wire::RefusalReason::wrong_version, told}});
    if (told_outdated_ != from.from)
      out.push_back(
          Notice{Notice::What::unfit, from.from, join.self.name + " cannot take part in this run: " + told});
    told_outdated_ = from.from;
    return true;
  }
  return false;
}

bool Joining::answer(const Received& from, const wire::Join& join, Actions& out) {
  if (join.self.id != from.from || is_outdated(from, join, out)) return false;
  Membership& membership = run_.membership;
  membership.merge(run_.now, from.from, {&join.self, 1}, out);
  membership.heard(run_.now, from.from, from.address, out);
  if (!manifest_) {
    out.push_back(Send{membership.view().reply_to(from.from, from.address),
                       wire::Refusal{wire::RefusalReason::not_ready, "this peer is still joining itself"}});
    return false;
  }
  auto members = membership.introduction(from.from);
  const std::uint64_t retired = membership.view().members.retired_samples(members);
  out.push_back(Send{membership.view().reply_to(from.from, from.address),
                     wire::Welcome{*manifest_, run_.now - run_.run_start, std::move(members), retired}});
  return true;
}

}  // namespace starling::gossip
