// The back ends by name. Everything above sees only the interface, kernels/backend.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"

namespace starling::kernels {

// `name` is "cpu", "reference", or "cuda:N" for NVIDIA GPU number N. Errors: an unknown name, a precision
// that the back end does not have on this machine, a GPU that cannot be used.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, Precision precision = Precision::f32);
const std::vector<std::string>& backend_names();  // those that run on the host

// Whether this processor has matrix tiles (AMX). Without them bfloat16 takes up to five times as long as
// float32 where that is computed in lanes (LeNet), and more memory; elsewhere it can be faster.
bool has_matrix_tiles();
// Whether its vector instructions multiply bfloat16 (AVX512-BF16), which is faster than float32 for networks
// that consist of large products, such as those for text.
bool has_bfloat16_products();

// The usable GPU number `place`, modulo their count: "cuda:1"; "cpu" if there is none.
std::string best_device(std::uint32_t place);

}  // namespace starling::kernels
