// Bytes that travel between virtual machines. Sender and receiver share them, so a chunk is never copied.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace starling::lab {

// Bytes that are aligned as those of the daemon's data plane.
class Block {
  struct Line;

 public:
  // Does not keep the bytes alive.
  class Reference {
   public:
    explicit Reference(const Block& block) : lines_(block.lines_), bytes_(block.bytes_) {}
    bool lives() const { return !lines_.expired(); }
    // REQUIRES: lives(), for as long as the bytes are used.
    MutableBytes bytes() const { return Block(lines_.lock(), bytes_).bytes(); }

   private:
    std::weak_ptr<Line[]> lines_;
    std::size_t bytes_;
  };

  Block() = default;
  explicit Block(std::size_t bytes)
      : lines_(std::make_shared_for_overwrite<Line[]>((bytes + sizeof(Line) - 1) / sizeof(Line))),
        bytes_(bytes) {}

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

// Makes blocks and finds those that are still in use, in the order of their making.
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

}  // namespace starling::lab
