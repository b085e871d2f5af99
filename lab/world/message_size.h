// How many bytes a control message takes as a frame, without encoding it: within 15 % of what wire/codec
// writes, mostly far closer. The simulator counts every message's bytes and builds none of them.
#pragma once

#include <cstddef>

#include "wire/messages.h"

namespace starling::lab {

std::size_t frame_bytes(const wire::Message& message);

}  // namespace starling::lab
