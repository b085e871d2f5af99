// Products of matrices of floats, row by row: what the emulated libraries come down to.
#pragma once

namespace starling::emulator {

// c += a b, where a is m x k, b is k x n and c is m x n, all dense.
void multiply(int m, int n, int k, const float* a, const float* b, float* c);

// Rounded to the 10 bits of mantissa that tensor cores read of a float.
float to_tf32(float value);

}  // namespace starling::emulator
