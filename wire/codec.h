// Encodes messages as FlatBuffers (encode.cc) and decodes them (codec.cc). A decoded message has
// passed the verifier and every check below, so its form is valid; its content may be false. The limits are
// part of the protocol (docs/PROTOCOL.md).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "wire/messages.h"

namespace starling::wire {

// Maximum lengths of texts, in bytes. Every text is UTF-8 without control characters; hosts and names of
// peers pass is_host() and is_member_name() (base/ids.h).
using starling::kHostBytesMax;
using starling::kNameBytesMax;  // also of swarms' names and keys of settings
inline constexpr std::size_t kModelBytesMax = 256;
inline constexpr std::size_t kTextBytesMax = 1024;  // data, sentences
inline constexpr std::size_t kSettingValueBytesMax =
    49'152;  // the name of a topology may contain a whole graph
// Maximum lengths of lists.
inline constexpr std::size_t kMembersMax = 4096;
inline constexpr std::size_t kSettingsMax = 256;  // also of facts
inline constexpr std::size_t kKnownMax = 1024;    // of a joiner's program
// The largest arena: 2^40 floats.
inline constexpr std::uint64_t kArenaFloatsMax = std::uint64_t{1} << 40;

inline constexpr std::uint32_t kPausedFlag = 1;  // of Vitals

// The body of a control frame.
std::vector<std::byte> encode_message(const Message& message);

// A whole control frame with its header; an Error if the body would exceed kControlBodyBytesMax.
Result<std::vector<std::byte>> encode_frame(const Message& message);

// An Error if `body` is not a message within the limits. Never allocates more than a small multiple of
// body.size().
Result<Message> decode_message(Bytes body);

// Whether `body`, which decode_message() rejects, has the form of a message of a type that later versions of
// the protocol may have. A receiver ignores it.
bool is_later_message(Bytes body);

// "Ping", for display.
std::string_view name(const Message& message);

}  // namespace starling::wire
