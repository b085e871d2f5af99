// Some of a run's peers, by their numbers: "3", "0-3", "0-3,8", or "all".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace starling::training {

class PeerSet {
 public:
  static constexpr std::uint32_t kAll = UINT32_MAX;  // stands for all peers where a number is wanted
  static constexpr std::uint32_t kMost = 99'999;     // no peer has a larger number

  PeerSet(std::uint32_t one) : ranges_{{one, one}} {}  // NOLINT: a number is one
  static PeerSet all() { return kAll; }

  static Result<PeerSet> parse(std::string_view text);
  std::string text() const;  // its inverse

  bool is_all() const { return ranges_.front().first == kAll; }
  bool is_one() const {
    return !is_all() && ranges_.size() == 1 && ranges_.front().first == ranges_.front().second;
  }
  bool contains(std::uint32_t peer) const;
  // Whether these are all of `peers` peers; and the largest number among them, 0 for "all".
  bool covers(std::uint32_t peers) const;
  std::uint32_t largest() const { return is_all() ? 0 : ranges_.back().second; }
  // Those among `peers` peers, in the order of their numbers.
  std::vector<std::uint32_t> among(std::uint32_t peers) const;

  friend bool operator==(const PeerSet&, const PeerSet&) = default;

 private:
  PeerSet() = default;

  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      ranges_;  // first and last of each; apart, in their order
};

}  // namespace starling::training
