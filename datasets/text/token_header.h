// The beginning of a file of tokens, which are 16-bit little-endian numbers: nothing, as nanoGPT writes
// them, or the header of llm.c (dev/data/data_common.py): 256 32-bit numbers, of which the first three are
// 20240520, the version 1, and how many tokens follow.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"

namespace starling::datasets::text {

inline constexpr std::size_t kTokenHeaderBytes = 256 * 4;

// How many tokens the header says, if the file has one. `start`: the file's first kTokenHeaderBytes, or all
// of a shorter file.
Result<std::optional<std::uint64_t>> read_token_header(std::span<const std::uint8_t> start);

}  // namespace starling::datasets::text
