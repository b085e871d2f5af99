// The loaded version of oneDNN and its capabilities on this processor. Includes none of its headers.
#pragma once

#include <string>

namespace starling::kernels::cpu {

// Whether oneDNN uses this processor's instructions for bfloat16 (AVX512-BF16, AMX).
bool has_bf16();

// Whether oneDNN has Winograd's convolutions for this processor.
bool has_winograd();

// "2.6.3"
std::string onednn_version();

}  // namespace starling::kernels::cpu
