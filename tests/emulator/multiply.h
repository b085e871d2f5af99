// Row-major float matrix products, the core of the emulated libraries.
#pragma once

namespace starling::emulator {

// c += a b, where a is m x k, b is k x n and c is m x n, all dense.
void multiply(int m, int n, int k, const float* a, const float* b, float* c);

// Rounds to the 10 mantissa bits that tensor cores use.
float to_tf32(float value);

}  // namespace starling::emulator
