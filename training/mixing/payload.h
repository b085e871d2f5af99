// The dense payloads: how a chunk's floats lie in the bytes that travel (wire/rules/payload.h describes
// them). Encoding rounds; every rule computes with what was decoded, on both sides, so rounding breaks no
// conservation.
//
// int8 is QSGD's idea (Alistarh et al., NIPS 2017) in blocks: of every 256 floats the largest magnitude is
// 127 steps, and each value goes to one of its two neighbors by chance, so that its mean is the value itself.
// The chance is a hash of a seed and the value's place: the same in every replay, on every processor and
// device (kernels/packing.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "kernels/packing.h"
#include "training/mixing/mixer.h"

namespace starling::training {

using kernels::kInt8Block;  // as wire::kInt8BlockFloats

// Whether every float travels: f32, bf16 or int8.
inline bool is_dense(Payload payload) { return payload != Payload::none && traits(payload).dense; }

// The bytes of `floats` values. REQUIRES: is_dense(payload), like all functions here.
std::size_t encoded_bytes(Payload payload, std::size_t floats);

// REQUIRES: every value is finite; out.size() == encoded_bytes(payload, values.size()), aligned to 4 bytes.
void encode(Payload payload, std::span<const float> values, std::uint64_t seed, MutableBytes out);

// out = floats [begin, begin + out.size()) of the `floats` that are in `in`. It reads nothing else, whatever
// the bytes are; the values may be anything, NaN included.
// REQUIRES: in.size() == encoded_bytes(payload, floats), aligned to 4 bytes; the range lies within.
void decode(Payload payload, Bytes in, std::size_t floats, std::size_t begin, std::span<float> out);

// The seed for rounding one parcel.
std::uint64_t rounding_seed(std::uint64_t seed, const Session& session, std::size_t offset, bool reply);

// The floats of a payload f32, where they lie. REQUIRES: aligned to 4 bytes, a whole number of floats.
std::span<const float> as_floats(Bytes bytes);
std::span<float> as_floats(MutableBytes bytes);

}  // namespace starling::training
