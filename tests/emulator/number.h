// Numbers in device memory: float32 or bfloat16, with arithmetic in float32.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>

namespace starling::emulator {

enum class Number { f32, bf16 };

inline std::size_t bytes_of(Number number) {
  return number == Number::f32 ? sizeof(float) : sizeof(__nv_bfloat16);
}

inline float load(Number number, const void* array, std::size_t i) {
  if (number == Number::f32) return static_cast<const float*>(array)[i];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(array)[i]);
}

inline void store(Number number, void* array, std::size_t i, float value) {
  if (number == Number::f32) {
    static_cast<float*>(array)[i] = value;
  } else {
    static_cast<__nv_bfloat16*>(array)[i] = __float2bfloat16_rn(value);
  }
}

// Stores alpha * value + beta * old value; the old value is not read if beta is 0.
inline void blend(Number number, void* array, std::size_t i, float alpha, float value, float beta) {
  store(number, array, i, alpha * value + (beta == 0 ? 0 : beta * load(number, array, i)));
}

}  // namespace starling::emulator
