// What travels between virtual machines: control messages, and the conversations of bulk connections.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "wire/messages.h"

namespace starling::lab {

// Floats of a chunk as they travel; sender and receiver look at the same ones.
using Values = std::shared_ptr<std::vector<float>>;

struct Packet {
  enum class Kind : std::uint8_t {
    message,        // control
    offer,          // opens an exchange; the initiator's chunks follow
    refusal,        // of an offer
    offer_chunk,    // the initiator's snapshot
    reply_chunk,    // the responder's value, with a weight
    close,          // the sender gives the exchange up
    state_request,  // from `chunk` on
    state_refusal,
    state_chunk,
  };
  Kind kind = Kind::message;
  bool poisoned = false;  // its values were spoiled on the way out
  float weight = 0;       // of a reply
  std::uint32_t chunk = 0;
  std::size_t bytes = 0;       // as a frame
  PeerId sender;               // the instance that sent it
  std::uint64_t exchange = 0;  // or, of a state's copy, which attempt of the joiner's
  std::uint64_t round = 0;     // of an offer or a refusal
  Values values;
  wire::Message message;
};
using PacketPtr = std::unique_ptr<Packet>;

}  // namespace starling::lab
