// The number of bytes of a control message as a frame, computed without encoding it: within 15 % of what
// wire/codec writes. The simulator counts the bytes of every message and encodes none.
#pragma once

#include <cstddef>

#include "wire/messages.h"

namespace starling::lab {

std::size_t frame_bytes(const wire::Message& message);

}  // namespace starling::lab
