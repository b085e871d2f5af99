// What travels between virtual machines: control messages and the frames of bulk connections. Sender and
// receiver share the bytes of a chunk, so they are never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "training/mixing/mixer.h"
#include "wire/messages.h"

namespace starling::lab {

// Shared bytes, aligned to 64 bytes as in the daemon's data plane. The memory itself is not aligned: malloc()
// takes several times as long for aligned memory.
class Block {
 public:
  // Does not keep the bytes alive.
  class Reference {
   public:
    explicit Reference(const Block& block) : memory_(block.memory_), bytes_(block.bytes_) {}
    bool lives() const { return !memory_.expired(); }
    // REQUIRES: lives() while the bytes are used.
    MutableBytes bytes() const { return Block(memory_.lock(), bytes_).bytes(); }

   private:
    std::weak_ptr<std::byte[]> memory_;
    std::size_t bytes_;
  };

  Block() = default;
  explicit Block(std::size_t bytes)
      : memory_(std::make_shared_for_overwrite<std::byte[]>(bytes + kAlignment - 1)), bytes_(bytes) {}

  explicit operator bool() const { return memory_ != nullptr; }
  MutableBytes bytes() const {
    void* begin = memory_.get();
    std::size_t room = bytes_ + kAlignment - 1;
    return {static_cast<std::byte*>(std::align(kAlignment, bytes_, begin, room)), bytes_};
  }

 private:
  static constexpr std::size_t kAlignment = 64;

  Block(std::shared_ptr<std::byte[]> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  std::shared_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

// Makes blocks, and lists those still in use in the order in which they were made.
class BlockStore {
 public:
  Block make(std::size_t bytes) {
    if (blocks_.size() > 2 * in_use_ + 64) {
      std::erase_if(blocks_, [](const Block::Reference& block) { return !block.lives(); });
      in_use_ = blocks_.size();
    }
    Block block(bytes);
    blocks_.emplace_back(block);
    return block;
  }

  void append_to(std::vector<MutableBytes>& out) const {
    for (const Block::Reference& block : blocks_) {
      if (block.lives()) out.push_back(block.bytes());
    }
  }

 private:
  std::vector<Block::Reference> blocks_;
  std::size_t in_use_ = 0;  // after the latest sweep
};

struct Packet {
  enum class Kind : std::uint8_t {
    message,        // control
    offer,          // begins an exchange; the initiator's chunks follow
    refusal,        // rejects an offer
    offer_chunk,    // lent by the initiator
    reply_chunk,    // the responder's answer
    close,          // the sender gives up the exchange
    state_request,  // requests the chunks from `chunk` on
    state_refusal,
    state_chunk,
  };
  Kind kind = Kind::message;
  bool poisoned = false;                   // it contains values that no replica may accept
  bool lied = false;                       // its values differ from those that the sender computes with
  std::uint32_t chunk = 0;                 // number, in a copy of the state
  std::size_t bytes = 0;                   // of the whole frame
  PeerId sender;                           // instance
  std::uint64_t exchange = 0;              // in a copy of the state: the joiner's attempt
  std::uint64_t round = 0;                 // of an offer or a refusal
  training::Parcel parcel{};               // of a chunk
  Block block{};                           // holds the parcel's values
  std::optional<wire::Message> message{};  // if it is control
};
using PacketPtr = std::unique_ptr<Packet>;

// The number of bytes of a control message as a frame, computed without encoding it: within 15 % of what
// wire/codec writes. The simulator counts the bytes of every message and encodes none.
std::size_t frame_bytes(const wire::Message& message);

}  // namespace starling::lab
