// The beginning of a file of tokens, which are little-endian numbers: nothing, as nanoGPT writes them, or the
// header of llm.c (dev/data/data_common.py): 256 32-bit numbers, of which the first three are a magic number,
// a version, and how many tokens follow.
//
//   20240520, 1    tokens of 16 bits
//   20240801, 7    tokens of 32 bits
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace starling::datasets::text {

inline constexpr std::size_t kTokenHeaderBytes = 256 * 4;

struct TokenHeader {
  int bits = 16;  // of each token
  std::uint64_t tokens = 0;
};

// What the header says, if the file has one. `start`: the file's first kTokenHeaderBytes, or all of a shorter
// file. An Error, which continues the sentence after the file's name, if the start is that of another format.
Result<std::optional<TokenHeader>> read_token_header(std::span<const std::uint8_t> start);

}  // namespace starling::datasets::text
