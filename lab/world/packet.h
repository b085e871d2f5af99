// What travels between virtual machines: control messages, and the conversations of bulk connections.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/ids.h"
#include "training/exchange/mixer.h"
#include "wire/messages.h"

namespace starling::lab {

// Bytes aligned as the data plane's are; sender and receiver look at the same ones.
class Block {
  struct Line;

 public:
  // Does not keep the bytes.
  class Reference {
   public:
    explicit Reference(const Block& block) : lines_(block.lines_), bytes_(block.bytes_) {}
    bool lives() const { return !lines_.expired(); }
    // REQUIRES: lives(), as long as they are used.
    MutableBytes bytes() const { return Block(lines_.lock(), bytes_).bytes(); }

   private:
    std::weak_ptr<Line[]> lines_;
    std::size_t bytes_;
  };

  Block() = default;
  explicit Block(std::size_t bytes)
      : lines_(std::make_shared_for_overwrite<Line[]>((bytes + sizeof(Line) - 1) / sizeof(Line))), bytes_(bytes) {}

  explicit operator bool() const { return lines_ != nullptr; }
  MutableBytes bytes() const { return {lines_ ? lines_[0].bytes.data() : nullptr, bytes_}; }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  Block(std::shared_ptr<Line[]> lines, std::size_t bytes) : lines_(std::move(lines)), bytes_(bytes) {}

  std::shared_ptr<Line[]> lines_;
  std::size_t bytes_ = 0;
};

struct Packet {
  enum class Kind : std::uint8_t {
    message,        // control
    offer,          // opens an exchange; the initiator's chunks follow
    refusal,        // of an offer
    offer_chunk,    // what the initiator lends
    reply_chunk,    // what the responder answers
    close,          // the sender gives the exchange up
    state_request,  // from `chunk` on
    state_refusal,
    state_chunk,
  };
  Kind kind = Kind::message;
  bool poisoned = false;  // values that may not touch a replica were put into it on the way out
  bool lied = false;      // its values are others than the sender computes with
  std::uint32_t chunk = 0;     // of a state's copy
  std::size_t bytes = 0;       // as a frame
  PeerId sender;               // the instance that sent it
  std::uint64_t exchange = 0;  // or, of a state's copy, which attempt of the joiner's
  std::uint64_t round = 0;     // of an offer or a refusal
  training::Parcel parcel{};   // of a chunk; its values lie in
  Block block{};
  wire::Message message{};
};
using PacketPtr = std::unique_ptr<Packet>;

}  // namespace starling::lab
