// What travels between virtual machines: control messages, and the frames of bulk connections.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "lab/world/block.h"
#include "training/exchange/mixer.h"
#include "wire/messages.h"

namespace starling::lab {

struct Packet {
  enum class Kind : std::uint8_t {
    message,        // control
    offer,          // begins an exchange; the initiator's chunks follow
    refusal,        // rejects an offer
    offer_chunk,    // lent by the initiator
    reply_chunk,    // the responder's answer
    close,          // the sender gives up the exchange
    state_request,  // asks for the chunks from `chunk` on
    state_refusal,
    state_chunk,
  };
  Kind kind = Kind::message;
  bool poisoned = false;       // on the way out, values were put into it that may not touch a replica
  bool lied = false;           // its values differ from those that the sender computes with
  std::uint32_t chunk = 0;     // of a copy of the state
  std::size_t bytes = 0;       // of the whole frame
  PeerId sender;               // instance
  std::uint64_t exchange = 0;  // or the joiner's attempt, for a copy of the state
  std::uint64_t round = 0;     // of an offer or a refusal
  training::Parcel parcel{};   // of a chunk
  Block block{};               // holds the parcel's values
  wire::Message message{};
};
using PacketPtr = std::unique_ptr<Packet>;

}  // namespace starling::lab
