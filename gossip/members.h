// Everyone a peer knows but itself, sorted by id, with a digest of the live ones: a hash for each of 64
// buckets of ids, kept up to date with every change, so that two peers can tell by 512 bytes whether, and
// where, their views differ (anti-entropy; Demers et al., «Epidemic algorithms for replicated database
// maintenance», PODC 1987).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "wire/messages.h"

namespace starling::gossip {

// A member and what this peer alone knows of it.
struct Record {
  wire::Member member;
  Instant changed;                    // when its liveness last did
  std::optional<Instant> last_heard;  // a verified message from the member itself, the only sign of life
  Instant quarantined_until;          // no exchange with it before; refusals of its parameters led to this
  Instant avoided_until;              // no exchange with it before: late ones came to nothing
  Instant samples_at;                 // when its samples last grew, as far as is known here
  Duration samples_every{0};          // smoothed: between two growths; 0: there were not two yet
  Duration round_trip{0};             // smoothed, of probes; 0: none was answered yet
  Duration round_trip_deviation{0};
  std::optional<wire::Vitals> vitals{};  // what it said of itself last

  // Of a suspect: who, independently, left a probe unanswered.
  static constexpr std::size_t kAccusersMax = 4;
  std::array<PeerId, kAccusersMax> accusers{};
  std::uint8_t accuser_count = 0;

  std::uint8_t rumor_tellings = 0;     // still to be made
  std::uint8_t progress_tellings = 0;  // still to be made
  std::uint8_t failed_exchanges = 0;   // in a row
  std::uint8_t poisonings = 0;         // since the last quarantine
  bool rumor_queued = false, progress_queued = false;
  bool superseded = false;             // another instance listens at its address now: never tried again
  Instant warned_at{Duration::min()};  // when it was last told what is said about it

  bool is_live() const { return member.liveness <= wire::Liveness::suspect; }
  bool accuse(PeerId accuser);  // false if it is known already, or there are accusers enough
};

class Members {
 public:
  // In the order of ids. References are valid until the next insert or erase.
  const std::vector<Record>& records() const { return records_; }
  std::size_t size() const { return records_.size(); }
  Record* find(PeerId id);
  const Record* find(PeerId id) const;
  // The first record whose id is not less than `id`; its index, size() if there is none.
  std::size_t lower_bound(PeerId id) const;
  Record& at(std::size_t index) { return records_[index]; }
  // f(record) for every record whose member listens there, in the order of ids. f may change() it.
  template <class F>
  void for_each_at(const Address& address, F f) {
    const std::uint32_t hash = hash_of(address);
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (homes_[i] == hash && records_[i].member.address == address) f(records_[i]);
  }

  // REQUIRES: no record has this id.
  Record& insert(Record record);
  void erase(PeerId id);

  // Changes a record's member, and the digest with it.
  template <class Change>
  void change(Record& record, Change change) {
    std::uint64_t& bucket = digest_[bucket_of(record.member.id)];
    bucket -= hash_of(record.member);
    change(record);
    bucket += hash_of(record.member);
    homes_[static_cast<std::size_t>(&record - records_.data())] = hash_of(record.member.address);
  }

  const std::array<std::uint64_t, wire::kDigestBuckets>& digest() const { return digest_; }
  static std::size_t bucket_of(PeerId id);
  // Of what all peers should agree on: that it lives, its incarnation and phase. Suspicion passes and
  // progress flows, so they do not count; nor do the dead (0), whom a late joiner need not know.
  static std::uint64_t hash_of(const wire::Member& member);

 private:
  static std::uint32_t hash_of(const Address& address);

  // Of records_, close together: what is searched.
  std::vector<PeerId> ids_;
  std::vector<std::uint32_t> homes_;  // hashes of addresses
  std::vector<Record> records_;
  std::array<std::uint64_t, wire::kDigestBuckets> digest_{};
};

}  // namespace starling::gossip
