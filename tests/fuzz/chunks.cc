// Chunks from a partner, for every rule and payload: offers to answer and replies to complete, with arbitrary
// heads and values. Nothing crashes, and the replica's values stay acceptable.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/repair.h"
#include "training/mixing/make.h"
#include "training/mixing/values.h"
#include "wire/frame.h"

using namespace starling;

namespace {

constexpr std::size_t kCell = 64, kFloats = 4 * kCell + 20;
constexpr std::size_t kRoom = sizeof(float) * wire::kChunkFloatsMax + training::Mixer::kRoomBesides;

struct Combination {
  Rule rule;
  Payload payload;
};
constexpr Combination kCombinations[] = {
    {Rule::pairwise, Payload::f32},
    {Rule::pairwise, Payload::bf16},
    {Rule::pairwise, Payload::int8},
    {Rule::pairwise, Payload::top_k},
    {Rule::clipped, Payload::f32},
    {Rule::clipped, Payload::int8},
    {Rule::parameter_server, Payload::f32},
    {Rule::parameter_server, Payload::int8},
    {Rule::push_sum, Payload::f32},
    {Rule::push_sum, Payload::bf16},
    {Rule::d_psgd, Payload::f32},
    {Rule::noloco, Payload::f32},
    {Rule::choco, Payload::top_k},
    {Rule::choco, Payload::int8},
    {Rule::choco, Payload::f32},
};

struct alignas(64) Line {
  std::byte bytes[64];
};
struct Room {
  explicit Room(std::size_t size)
      : lines((size + 63) / 64), bytes(std::as_writable_bytes(std::span(lines)).first(size)) {}
  std::vector<Line> lines;
  MutableBytes bytes;
};

// The fuzzer's input, byte by byte; zeros after its end.
struct Input {
  Bytes rest;
  std::uint8_t byte() {
    if (rest.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest.front());
    rest = rest.subspan(1);
    return value;
  }
  // A head that the frame reader accepts, and its values; nullopt if it would be rejected.
  bool parcel(training::Parcel& parcel, Room& values) {
    if (rest.size() < wire::kChunkHeadBytes) return false;
    const auto head_bytes = rest.first<wire::kChunkHeadBytes>();
    // The length matches the head; mismatches are rejected by the frame reader, which has its own target.
    const std::uint32_t bytes = length(head_bytes);
    const auto head =
        wire::parse_chunk_head(head_bytes, static_cast<std::uint32_t>(wire::kChunkHeadBytes) + bytes);
    if (!head) return false;
    rest = rest.subspan(wire::kChunkHeadBytes);
    parcel = {head->offset,
              head->floats,
              head->payload,
              head->weight,
              head->entries,
              head->sequence,
              values.bytes.first(bytes)};
    std::fill(values.bytes.begin(), values.bytes.begin() + bytes, std::byte{0});
    const std::size_t n = std::min<std::size_t>(bytes, rest.size());
    std::copy_n(rest.begin(), n, values.bytes.begin());
    rest = rest.subspan(n);
    return true;
  }
  static std::uint32_t length(Bytes head) {
    const auto floats = load<std::uint32_t>(head.data() + 16) % (wire::kChunkFloatsMax + 1);
    const auto payload = load<std::uint8_t>(head.data() + 21);
    const auto entries = load<std::uint32_t>(head.data() + 28) % (wire::kChunkFloatsMax + 1);
    switch (static_cast<Payload>(payload)) {
      case Payload::f32:
        return 4 * floats;
      case Payload::bf16:
        return 2 * floats;
      case Payload::int8:
        return floats + 4 * ((floats + wire::kInt8BlockFloats - 1) / wire::kInt8BlockFloats);
      case Payload::top_k:
        return std::min<std::uint32_t>((head[39] == std::byte{1} ? 4 : 8) * entries, kRoom - 64);
      default:
        return 0;
    }
  }
};

bool acceptable(const models::Arena& arena) {
  std::vector<float> values(arena.size());
  arena.read(0, values);
  return training::all_acceptable(values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{std::as_bytes(std::span(data, size))};
  const Combination& combination = kCombinations[input.byte() % std::size(kCombinations)];
  training::MixOptions options;
  options.rule = combination.rule;
  options.payload = combination.payload;
  options.cell_floats = kCell;
  options.top_k = 0.1;
  models::Arena arena(kFloats);
  std::vector<float> first(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) first[i] = static_cast<float>(i % 7) - 3;
  arena.write(0, first);
  const auto mixer = training::make_mixer(arena, options);
  mixer->adopt();
  mixer->begin_round(1);

  static Room room(kRoom), values(kRoom);
  training::Session theirs{.exchange = 1, .initiator = 2, .partner = 2, .round = 1};
  std::uint64_t own_exchange = 100, round = 1;
  for (int step = 0; step < 12 && !input.rest.empty(); ++step) {
    training::Parcel parcel;
    switch (input.byte() % 4) {
      case 0: {  // an offer from another peer
        if (!input.parcel(parcel, values)) break;
        const auto reply = mixer->answer(theirs, parcel, room.bytes);
        if (reply) STARLING_CHECK(reply->values.size() <= kRoom);
        break;
      }
      case 1: {  // a reply to our own offer
        const training::Session own{.exchange = ++own_exchange, .initiator = 1, .partner = 2, .round = round};
        const auto lent = mixer->lend(own, {input.byte() % 3u, 1 + input.byte() % 2u}, room.bytes);
        if (!lent) break;
        if (input.parcel(parcel, values)) {
          static_cast<void>(mixer->complete(own, *lent, parcel));
        } else {
          mixer->give_up(own, *lent);
        }
        break;
      }
      case 2:
        mixer->begin_round(++round);
        theirs.round = round;
        break;
      default:
        theirs.exchange = input.byte();
        theirs.partner = theirs.initiator = 2 + input.byte() % 12;
        break;
    }
    STARLING_CHECK(acceptable(arena));
  }
  return 0;
}
