// The protocol's vocabulary: what peers say to each other, as plain structs. The pure core speaks only these;
// wire/codec turns them into FlatBuffers and back, wire/frame puts those and raw chunks on the wire.
// docs/PROTOCOL.md draws the bytes and tells the conversations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "rules/payload.h"

namespace starling::wire {

// ---- members ----

// How a member is, as far as its teller knows. The order matters: of two tellings about the same incarnation
// the later state in this list wins; a higher incarnation, which only the member itself may choose, beats any
// state.
enum class Liveness : std::uint8_t { alive, suspect, failed, left };

// How far a member is in its run; it only moves forward.
enum class Phase : std::uint8_t {
  joining,   // looks for a swarm, or fetches manifest, data and parameters
  training,  // trains and exchanges
  settling,  // trains no more, exchanges a last few times
  finished,  // only answers; its parameters are what it will be judged by
};

struct Member {
  PeerId id;
  std::string name;
  Address address;  // where it listens
  std::uint32_t incarnation = 0;
  Liveness liveness = Liveness::alive;
  Phase phase = Phase::joining;
  std::uint64_t samples =
      0;  // consumed so far; never decreases. The swarm's progress is the sum over all members ever known
  std::uint64_t steps = 0;  // made so far; never decreases
  PeerId accuser;           // of a suspect: one of those whose own probes it left unanswered; else 0
  std::string http{};       // "HOST:PORT" of its page for people; empty: it has none
  std::string device{};     // on which it trains: "cpu", "cuda:0"; empty until it is known

  friend bool operator==(const Member&, const Member&) = default;
};

// How far a member is: what changes with every step, told apart from the rest because it is told so often.
struct Progress {
  PeerId id;
  std::uint64_t samples = 0;  // as Member::samples
  friend bool operator==(const Progress&, const Progress&) = default;
};

// What a member says of how it fares, for people to see; nothing is decided by it. What it knows is finite.
struct Vitals {
  PeerId id;
  std::uint32_t sequence = 0;                 // the higher, the newer
  std::optional<float> samples_per_second{};  // lately
  std::optional<float> loss{};                // of late batches, smoothed
  std::optional<float> distance{};            // to the partner of a late exchange: |x - y| / |x|
  std::optional<float>
      staleness{};      // steps of its own between lending a chunk and mixing the reply, the mean
  PeerId partner{};     // of the exchange that it began last; 0: none yet
  bool paused = false;  // by its owner
  friend bool operator==(const Vitals&, const Vitals&) = default;
};

// ---- what a joiner is told ----

struct Setting {
  std::string key, value;  // "training.batch_size", "64": as in the experiment file
  friend bool operator==(const Setting&, const Setting&) = default;
};

// The run: enough to build the same model, find the same data and follow the same rules.
struct Manifest {
  std::string model;
  std::string data;
  std::uint64_t fingerprint = 0;  // of the arena's layout; peers whose fingerprints differ exchange nothing
  std::uint64_t arena_floats = 0;
  std::uint64_t seed = 0;
  std::vector<Setting> settings;  // rule, topology, hyper-parameters, end of the run
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Which setting of the swarm's topology somebody follows. Of two the greater wins; the manifest's is number
// 0.
struct Revision {
  std::uint64_t number = 0;
  PeerId author;  // whom a user asked; decides between two who were asked at once
  friend auto operator<=>(const Revision&, const Revision&) = default;
};

inline constexpr std::uint64_t kRevisionMax = std::uint64_t{1} << 53;

// ---- handshake: the first message on every connection, in both directions ----

enum class Purpose : std::uint8_t { control, bulk };

struct Hello {
  std::string swarm;  // both ends must name the same one
  PeerId id;
  std::string name;
  Address address;  // where the sender listens; the receiver may dial it
  Purpose purpose = Purpose::control;
  friend bool operator==(const Hello&, const Hello&) = default;
};

enum class RefusalReason : std::uint8_t {
  wrong_version,
  wrong_swarm,
  wrong_model,
  not_ready,
  busy,
  same_peer,
  malformed,
  quarantined,  // the sender has time and again sent what may not touch a replica
  out_of_step,  // the rounds of the two are too far apart for the rule
};

// The last message on a connection that is refused, or the answer to a Join or an offer that is.
struct Refusal {
  RefusalReason reason = RefusalReason::busy;
  std::string text;  // one sentence for people
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// ---- control ----

struct Ping {  // "are you alive?"; answered by an Ack with the same sequence
  std::uint64_t sequence = 0;
  PeerId
      target;  // whom the sender believes to listen there, 0: whoever does; another instance says so instead
  std::vector<Member> members{};
  friend bool operator==(const Ping&, const Ping&) = default;
};

struct PingRequest {  // "I hear nothing from `target`: ask it for me"; answered by an Ack on its behalf, or
                      // not
  std::uint64_t sequence = 0;
  PeerId target;
  Address address;  // where the target listens
  std::vector<Member> members{};
  friend bool operator==(const PingRequest&, const PingRequest&) = default;
};

struct Ack {
  std::uint64_t sequence = 0;
  std::vector<Member> members{};
  PeerId on_behalf{};  // of the target of a PingRequest; 0: the sender speaks for itself
  friend bool operator==(const Ack&, const Ack&) = default;
};

struct Gossip {  // news of members and of their progress
  std::vector<Member> members{};
  bool reply_wanted = false;  // the receiver answers with a Gossip of its own
  std::vector<Progress> progress{};
  std::vector<Vitals> vitals{};
  friend bool operator==(const Gossip&, const Gossip&) = default;
};

// The sender's view in short: bucket k holds a hash of all members whose id falls into it (gossip/members.h).
// Answered by a View of the buckets in which the receiver's differs.
struct Digest {
  std::vector<std::uint64_t> buckets{};  // kDigestBuckets of them
  Revision topology{};  // that the sender follows; whoever knows a greater one answers with it
  friend bool operator==(const Digest&, const Digest&) = default;
};
inline constexpr std::size_t kDigestBuckets = 64;

struct View {                 // all members the sender knows in some buckets
  std::uint64_t buckets = 0;  // bit k: bucket k is told here; 0: the views are equal
  bool reply_wanted = false;  // the receiver answers with its own of the same buckets
  std::vector<Member> members{};
  Revision topology{};  // as in a Digest
  friend bool operator==(const View&, const View&) = default;
};

struct Join {  // asks for a Welcome
  Member self;
  friend bool operator==(const Join&, const Join&) = default;
};

struct Welcome {
  Manifest manifest;
  Duration elapsed{0};                // since the run began
  std::vector<Member> members{};      // some of them; a Digest gets the rest
  std::uint64_t retired_samples = 0;  // consumed by members that are no longer remembered
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Leave {  // the sender's last word
  Member self;
  friend bool operator==(const Leave&, const Leave&) = default;
};

struct Rewire {  // the swarm follows another topology: whoever follows an older revision takes it over
  Revision revision;
  std::string topology;  // a name of topologies/topology.h
  friend bool operator==(const Rewire&, const Rewire&) = default;
};

// ---- bulk: these travel on a bulk connection, between the chunks they speak of ----

struct ExchangeOffer {         // opens an exchange; the initiator's chunks follow at once
  std::uint64_t exchange = 0;  // unique per initiator
  std::uint64_t fingerprint = 0;
  std::uint64_t arena_floats = 0;
  std::uint32_t cell_floats =
      0;  // a chunk covers one or several whole cells of so many, the arena's last is shorter
  std::uint64_t round = 0;  // of the initiator, where the rule counts rounds
  friend bool operator==(const ExchangeOffer&, const ExchangeOffer&) = default;
};

struct ExchangeRefusal {  // instead of chunks: nobody mixes
  std::uint64_t exchange = 0;
  RefusalReason reason = RefusalReason::busy;
  std::uint64_t round = 0;  // the refuser's, where the rule counts rounds: whoever is behind goes on there
  friend bool operator==(const ExchangeRefusal&, const ExchangeRefusal&) = default;
};

struct StateRequest {  // a joiner asks for the parameters from `first_chunk` on
  std::uint64_t fingerprint = 0;
  std::uint32_t chunk_floats = 0;
  std::uint64_t first_chunk = 0;
  friend bool operator==(const StateRequest&, const StateRequest&) = default;
};

struct StateHead {  // the chunks follow
  std::uint64_t arena_floats = 0;
  std::uint64_t chunks = 0;  // that follow
  friend bool operator==(const StateHead&, const StateHead&) = default;
};

using Message = std::variant<Hello, Refusal, Ping, PingRequest, Ack, Gossip, Digest, View, Join, Welcome,
                             Leave, ExchangeOffer, ExchangeRefusal, StateRequest, StateHead, Rewire>;

// ---- chunks: raw bodies, described by a fixed header on the wire ----

enum class ChunkKind : std::uint8_t {
  offer,  // what the initiator sends of the chunk
  reply,  // what the responder answers, with the weight both sides use
  state,  // a piece of a joiner's first copy, as float32
};

// The scale of an int8 payload (rules/payload.h) covers this many floats.
inline constexpr std::uint32_t kInt8BlockFloats = 256;

struct ChunkHead {
  std::uint64_t exchange = 0;  // 0 in a state transfer
  std::uint64_t offset = 0;    // of the first float, from the arena's start
  std::uint32_t floats = 0;    // of the arena that the chunk covers, however few travel
  ChunkKind kind = ChunkKind::offer;
  Payload payload = Payload::f32;
  float weight = 0;            // what the rule makes of it; 0 in a state transfer
  std::uint32_t entries = 0;   // of a top_k, else 0
  std::uint64_t sequence = 0;  // what the rule makes of it
  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};

}  // namespace starling::wire
