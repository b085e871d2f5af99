// The index variables of the CUDA language, as of the thread that the calling CPU thread emulates.
#pragma once

#include <vector_types.h>

constinit inline thread_local uint3 threadIdx{0, 0, 0};
constinit inline thread_local uint3 blockIdx{0, 0, 0};
constinit inline thread_local dim3 blockDim{1, 1, 1};
constinit inline thread_local dim3 gridDim{1, 1, 1};
