// The messages of the protocol as plain structs, the only form that the pure core uses. wire/codec converts
// them to FlatBuffers and back; wire/frame frames these and raw chunks. docs/PROTOCOL.md shows the bytes and
// describes the sequences of messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/identity.h"
#include "base/ids.h"
#include "base/recent_figures.h"
#include "base/time.h"
#include "wire/rules/payload.h"

namespace starling::wire {

// ---- members ----

// The state of a member in the view of the sender. The order matters: of two reports about the same
// incarnation, the later state in this list wins. A higher incarnation, which only the member itself may
// choose, wins over any state.
enum class Liveness : std::uint8_t { alive, suspect, failed, left };

// The stage of a member in its run; it only advances.
enum class Phase : std::uint8_t {
  joining,   // searches for a swarm, or fetches manifest, data and parameters
  training,  // trains and exchanges
  settling,  // trains no more, makes its last exchanges
  finished,  // only answers; its parameters are final
};

// What a member says about itself, with its signature (gossip/members/statements.h), and what the sender of
// the message adds: liveness (only `left` is signed), samples, steps and the accuser.
struct Member {
  PeerId id;
  std::string name;
  Address address;  // where it listens, as others dial it; empty: it cannot be dialed
  std::uint32_t incarnation = 0;
  Liveness liveness = Liveness::alive;
  Phase phase = Phase::joining;
  // Consumed so far; never decreases. The swarm's progress is the sum over all members ever known.
  std::uint64_t samples = 0;
  std::uint64_t steps = 0;  // made so far; never decreases
  PeerId accuser;           // of a suspect: a member whose own probes it did not answer; else 0
  std::string http{};       // "HOST:PORT" of its status page; empty if it has none
  std::string device{};     // that it trains on: "cpu", "cuda:0"; empty until it is known
  PublicKey key{};
  Signature signature{};
  std::vector<Address> also{};  // further addresses, at most kAlsoMax; none without an address
  std::vector<PeerId> homes{};  // of a member that cannot be dialed: they call it; at most kHomesMax
  std::uint64_t relays = 0;     // bits per second that it relays for others; 0: it does not relay

  friend bool operator==(const Member&, const Member&) = default;
};
inline constexpr std::size_t kAlsoMax = 3;
inline constexpr std::size_t kHomesMax = 3;

// The samples of a member, which change with every step: separate from Member because they are sent often.
struct Progress {
  PeerId id;
  std::uint64_t samples = 0;  // as Member::samples
  friend bool operator==(const Progress&, const Progress&) = default;
};

// A member's report about itself, for display only: no decision depends on it. Known values are finite.
struct Vitals : RecentFigures {
  PeerId id{};
  std::uint32_t sequence = 0;         // the highest is the newest
  std::optional<double> staleness{};  // mean number of own steps from lending a chunk to mixing the reply
  PeerId partner{};                   // of the exchange that it began last; 0: none yet
  friend bool operator==(const Vitals&, const Vitals&) = default;
};

// ---- sent to a joiner ----

struct ManifestEntry {
  std::string key, value;  // "training.batch_size", "64", as in the experiment file
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

// Describes the run: the model, the data and the shared settings.
struct Manifest {
  std::string model;
  std::string data;
  std::uint64_t fingerprint = 0;  // of the arena's layout; peers with different fingerprints do not exchange
  std::uint64_t arena_floats = 0;
  std::uint64_t seed = 0;
  std::vector<ManifestEntry> settings;  // that differ from their defaults; each must be known
  std::vector<ManifestEntry> facts{};   // about model and data; unknown ones are ignored
  std::string program{};  // the version of the program that began the run; empty: earlier than 0.4
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The version of the swarm's topology. The greater of two wins; the topology of the manifest has number 0.
struct Revision {
  std::uint64_t number = 0;
  PeerId author;  // the peer that a user asked; decides between two that were asked at the same time
  friend auto operator<=>(const Revision&, const Revision&) = default;
};

inline constexpr std::uint64_t kRevisionMax = std::uint64_t{1} << 53;

// ---- handshake: the first message on every connection, in both directions ----

// Random bytes that are never used twice.
struct Nonce {
  std::array<std::byte, 16> bytes{};
  friend bool operator==(const Nonce&, const Nonce&) = default;
};

enum class Purpose : std::uint8_t {
  control,
  bulk,
  relay,  // to or from a member that passes bytes on between this peer and another one
};

struct Hello {
  std::string swarm;  // both ends must name the same one
  PeerId id;
  std::string name;
  Address address;  // where the sender listens; the receiver may connect to it. Empty: it does not listen
  Purpose purpose = Purpose::control;
  PublicKey key{};         // the id is its hash
  Nonce nonce{};           // fresh for each connection; the other end signs it
  Signature proof{};       // the accepter's; the dialer sends a Proof
  std::uint64_t call = 0;  // the number of the Call that the dialer answers; 0: none
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
  quarantined,     // the sender has repeatedly sent values that may not touch a replica
  out_of_step,     // the rounds of the two are too far apart for the rule
  false_identity,  // the sender did not prove that it has the key of its id
  not_allowed,     // the receiver's list of peers does not name the sender
  address_taken,   // two live members advertise the same address, and the receiver is one of them
};

// The last message on a rejected connection, or the answer to a rejected Join or offer.
struct Refusal {
  RefusalReason reason = RefusalReason::busy;
  std::string text;  // one sentence for display
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// The dialer's answer to the accepter's Hello: its signature over both Hellos (transport/trust/handshake.h).
struct Proof {
  Signature signature;
  friend bool operator==(const Proof&, const Proof&) = default;
};

// ---- control ----

struct Ping {  // answered by an Ack with the same sequence
  std::uint64_t sequence = 0;
  PeerId target;  // the expected receiver; 0: any. Another instance reports itself instead
  std::vector<Member> members{};
  // Of the PingRequest that this Ping carries out; 0: none. The receiver signs these two numbers.
  PeerId requester{};
  std::uint64_t requested = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};

struct PingRequest {  // asks the receiver to ping `target`; answered by an Ack on its behalf, or not at all
  std::uint64_t sequence = 0;
  PeerId target;
  Address address;  // where the target listens
  std::vector<Member> members{};
  friend bool operator==(const PingRequest&, const PingRequest&) = default;
};

struct Ack {
  std::uint64_t sequence = 0;
  std::vector<Member> members{};
  PeerId on_behalf{};  // the target of a PingRequest; 0: the sender itself
  // The target's, if the Ping had a requester: it proves to the requester that the target lives.
  Signature signature{};
  friend bool operator==(const Ack&, const Ack&) = default;
};

struct Gossip {  // changes of members and of their progress
  std::vector<Member> members{};
  bool reply_wanted = false;  // the receiver answers with its own Gossip
  std::vector<Progress> progress{};
  std::vector<Vitals> vitals{};
  friend bool operator==(const Gossip&, const Gossip&) = default;
};

// A summary of the sender's view: bucket k has a hash of all members whose ids fall into it
// (gossip/members/members.h). Answered by a View of the buckets that differ at the receiver.
struct Digest {
  std::vector<std::uint64_t> buckets{};  // kDigestBuckets
  Revision topology{};  // that the sender follows; a receiver that has a greater one answers with it
  friend bool operator==(const Digest&, const Digest&) = default;
};
inline constexpr std::size_t kDigestBuckets = 64;

struct View {                 // all members that the sender knows in some buckets
  std::uint64_t buckets = 0;  // bit k: bucket k is included; 0: the views are equal
  bool reply_wanted = false;  // the receiver answers with its own View of the same buckets
  std::vector<Member> members{};
  Revision topology{};  // as in a Digest
  friend bool operator==(const View&, const View&) = default;
};

// What a joiner's program can take part in. `knows` has the keys of settings, and "KEY=VALUE" for each value
// of those whose values have names.
struct Program {
  std::string version{};             // for sentences only
  std::vector<std::string> knows{};  // empty: earlier than 0.4, which does not say
  friend bool operator==(const Program&, const Program&) = default;
};

struct Join {  // asks for a Welcome
  Member self;
  Program program{};
  friend bool operator==(const Join&, const Join&) = default;
};

struct Welcome {
  Manifest manifest;
  Duration elapsed{0};                // since the run began
  std::vector<Member> members{};      // some of them; a Digest fetches the rest
  std::uint64_t retired_samples = 0;  // consumed by members that are no longer remembered
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Leave {  // the last message of the sender
  Member self;
  friend bool operator==(const Leave&, const Leave&) = default;
};

struct Rewire {  // the swarm follows another topology; peers with an older revision adopt it
  Revision revision;
  std::string topology;  // a name for topologies::Topology::parse()
  PublicKey key{};       // the author's
  Signature signature{};
  friend bool operator==(const Rewire&, const Rewire&) = default;
};

// Asks the target to dial, because the sender cannot. A home of the target passes it on.
struct Call {
  PeerId target;
  PeerId caller;                       // to dial; if the purpose is relay, the peer at the other end
  Purpose purpose = Purpose::control;  // relay: the sender of this message is to be dialed
  std::uint64_t number = 0;            // not 0; for Hello::call
  friend bool operator==(const Call&, const Call&) = default;
};

struct ReachRequest {  // asks the receiver to dial the sender; answered by a ReachReport
  std::uint64_t sequence = 0;
  friend bool operator==(const ReachRequest&, const ReachRequest&) = default;
};

struct ReachReport {
  std::uint64_t sequence = 0;
  bool reached = false;  // a new connection could be made
  Address address;       // that was dialed: as the requester stated it, or as its connection came from
  friend bool operator==(const ReachReport&, const ReachReport&) = default;
};

// ---- sent on a relay connection ----

struct CircuitRequest {  // to be connected with the target; answered by a Circuit or a Refusal
  PeerId target;
  friend bool operator==(const CircuitRequest&, const CircuitRequest&) = default;
};

struct Circuit {  // what follows in both directions are the bytes of a connection with the target
  PeerId target;
  friend bool operator==(const Circuit&, const Circuit&) = default;
};

// ---- sent on a bulk connection, between the chunks that they announce ----

struct ExchangeOffer {         // opens an exchange; the initiator's chunks follow at once
  std::uint64_t exchange = 0;  // unique per initiator
  std::uint64_t fingerprint = 0;
  std::uint64_t arena_floats = 0;
  // The size of a cell; the last one of the arena may be shorter. A chunk covers one or several whole cells.
  std::uint32_t cell_floats = 0;
  std::uint64_t round = 0;  // of the initiator, if the rule counts rounds
  friend bool operator==(const ExchangeOffer&, const ExchangeOffer&) = default;
};

struct ExchangeRefusal {  // instead of chunks: neither side mixes
  std::uint64_t exchange = 0;
  RefusalReason reason = RefusalReason::busy;
  std::uint64_t round = 0;  // the sender's, if the rule counts rounds; a peer that is behind continues there
  friend bool operator==(const ExchangeRefusal&, const ExchangeRefusal&) = default;
};

struct StateRequest {  // a joiner requests the parameters from `first_chunk` on
  std::uint64_t fingerprint = 0;
  std::uint32_t chunk_floats = 0;
  std::uint64_t first_chunk = 0;
  std::uint64_t trainer_state = 0;  // fingerprint of the trainer's state that is wanted, too; 0: none
  friend bool operator==(const StateRequest&, const StateRequest&) = default;
};

struct StateHead {
  std::uint64_t arena_floats = 0;
  std::uint64_t chunks = 0;         // that follow
  std::uint64_t trainer_words = 0;  // of the trainer's state, which follows them; 0: none
  friend bool operator==(const StateHead&, const StateHead&) = default;
};

using Message = std::variant<Hello, Refusal, Ping, PingRequest, Ack, Gossip, Digest, View, Join, Welcome,
                             Leave, ExchangeOffer, ExchangeRefusal, StateRequest, StateHead, Rewire, Proof,
                             Call, ReachRequest, ReachReport, CircuitRequest, Circuit>;

// ---- chunks: raw bodies, described by a fixed header on the wire ----

enum class ChunkKind : std::uint8_t {
  offer,  // values of the initiator
  reply,  // values of the responder, with the weight that both sides use
  state,  // a part of a joiner's first copy, as float32
};

// The scale of an int8 payload (wire/rules/payload.h) covers this many floats.
inline constexpr std::uint32_t kInt8BlockFloats = 256;

struct ChunkHead {
  std::uint64_t exchange = 0;  // 0 in a state transfer
  std::uint64_t offset = 0;    // of the first float in the arena
  std::uint32_t floats = 0;    // of the arena that the chunk covers, even if fewer are sent
  ChunkKind kind = ChunkKind::offer;
  Payload payload = Payload::f32;
  float weight = 0;            // defined by the rule; 0 in a state transfer
  std::uint32_t entries = 0;   // of top_k, else 0
  std::uint64_t sequence = 0;  // defined by the rule
  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};

}  // namespace starling::wire
