// The secrets that the peers of a closed swarm share, and the file that holds them: 32 random bytes in base64
// on each line, readable only by its owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::transport {

struct SwarmKey {
  static constexpr std::size_t kBytes = 32;
  std::array<std::byte, kBytes> bytes{};

  // A new key from the kernel's random bytes.
  static Result<SwarmKey> draw();
  friend bool operator==(const SwarmKey&, const SwarmKey&) = default;
};

// The keys of one file. A peer dials with the first key and accepts all of them, so the key of a running
// swarm can change in three steps; between two steps every machine gets a copy of the file.
//
//   added      a new key is accepted everywhere           KEY, NEW next
//   promoted   peers dial with it                         NEW, KEY old
//   dropped    the former key is not accepted any more    NEW
struct SwarmKeys {
  static constexpr std::size_t kMax = 8;

  enum class Mark : std::uint8_t { none, next, old };  // the second word of a line
  struct Entry {
    SwarmKey key;
    Mark mark = Mark::none;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;  // 1 to kMax

  SwarmKeys(const SwarmKey& key) : entries{{key}} {}

  // An Error, one sentence with the path, if the file cannot be read, is readable by others than its owner,
  // or has a line that is not 32 bytes in base64 and a mark. A passphrase could be guessed, so none is
  // accepted.
  static Result<SwarmKeys> read(const std::string& path);
  // Writes a new file of mode 0600; an Error if it exists.
  Status create(const std::string& path) const;
  // Replaces the file atomically; its owner stays.
  Status replace(const std::string& path) const;

  // Takes the next step of a change of the key. An Error if there is no room for another key.
  enum class Step : std::uint8_t { added, promoted, dropped };
  Result<Step> rotate();

  friend bool operator==(const SwarmKeys&, const SwarmKeys&) = default;

 private:
  SwarmKeys() = default;
  std::string text() const;
};

}  // namespace starling::transport
