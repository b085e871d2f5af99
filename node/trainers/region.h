// The memory that a peer shares with a trainer outside the process: a sealed memfd with a header, the table
// of tensors, the arena and, in copy mode, two mailboxes (docs/TRAINERS.md has the offsets). The trainer may
// write anything anywhere, so what is read from it is checked where it is used.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "node/trainers/declaration.h"

namespace starling::node {

// Words that the peer writes, by their offsets.
enum class PeerWord : std::size_t {
  allowed = 1024,
  ring_at = 1032,
  reply = 1040,
  era = 1048,
  waits = 1056,
  rate_factor = 1064,
  swarm_samples = 1072,
  exchanges = 1080,
  members_and_index = 1088,  // two u32
  share_of = 1096,           // u32, followed by zeros
  state_asked = 1104,
  state_era = 1112,
};

// Words that the trainer writes.
enum class TrainerWord : std::size_t {
  steps = 2048,
  samples = 2056,
  loss = 2064,
  accuracy = 2072,
  accuracy_steps = 2080,
  learning_rate = 2088,
  post = 2096,
  post_steps = 2104,
  post_samples = 2112,
  post_era = 2120,
  state_given = 2128,
};

class Region {
 public:
  // Zeros. The Error says what the kernel refused. REQUIRES: the declaration is complete.
  static Result<std::unique_ptr<Region>> make(const Declaration& declaration);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t bytes() const { return bytes_; }
  // The bytes of a region for this declaration.
  static std::size_t bytes_for(const Declaration& declaration);

  std::span<float> arena() const { return floats_at(arena_); }
  std::span<float> post() const { return floats_at(post_); }    // REQUIRES: copy mode
  std::span<float> reply() const { return floats_at(reply_); }  // REQUIRES: copy mode

  // The state of the optimizer (docs/TRAINERS.md, role `state`); empty without one. The trainer writes what
  // it gives, and the peer what it received. Their memory is used only once they are.
  std::span<const std::byte> state_given() const { return {begin_ + given_, state_bytes_}; }
  std::span<std::byte> state_received() const { return {begin_ + received_, state_bytes_}; }

  // What was written before a word is seen by a reader that sees the word.
  void set(PeerWord word, std::uint64_t value) { at(static_cast<std::size_t>(word)).store(value); }
  void set(PeerWord word, double value) { set(word, std::bit_cast<std::uint64_t>(value)); }
  std::uint64_t get(TrainerWord word) const { return at(static_cast<std::size_t>(word)).load(); }
  double get_real(TrainerWord word) const { return std::bit_cast<double>(get(word)); }
  // For the next trainer: no steps, unknown figures.
  void clear_trainer_words();

 private:
  Region(int descriptor, std::byte* begin, std::size_t bytes)
      : descriptor_(descriptor), begin_(begin), bytes_(bytes) {}
  struct Places;
  void write_header(const Places& places, bool view);
  std::atomic_ref<std::uint64_t> at(std::size_t offset) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(begin_ + offset));
  }
  std::span<float> floats_at(std::size_t offset) const {
    return {reinterpret_cast<float*>(begin_ + offset), floats_};
  }

  int descriptor_;
  std::byte* begin_;
  std::size_t bytes_;
  std::size_t floats_ = 0, arena_ = 0, post_ = 0, reply_ = 0;
  std::size_t given_ = 0, received_ = 0, state_bytes_ = 0;
};

}  // namespace starling::node
