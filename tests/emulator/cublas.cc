// cuBLAS: column-major matrix products as work of the handle's stream.
#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/emulator/calls.h"
#include "tests/emulator/captures.h"
#include "tests/emulator/device.h"
#include "tests/emulator/enqueue.h"
#include "tests/emulator/multiply.h"
#include "tests/emulator/number.h"
#include "tests/emulator/stream.h"

namespace emulator = starling::emulator;

struct cublasContext {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // the user's; null: cuBLAS would allocate one
  std::size_t workspace_bytes = 0;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

using emulator::Number;

constexpr int kVersion = CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;

struct Matrix {
  const void* values;
  Number number;
  cublasOperation_t operation;
  int leading;

  // The dense rows x columns of op(this), row by row.
  std::vector<float> packed(int rows, int columns, bool tf32) const {
    std::vector<float> dense(static_cast<std::size_t>(rows) * columns);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        const std::size_t at = operation == CUBLAS_OP_N ? static_cast<std::size_t>(j) * leading + i
                                                        : static_cast<std::size_t>(i) * leading + j;
        const float value = emulator::load(number, values, at);
        dense[static_cast<std::size_t>(i) * columns + j] = tf32 ? emulator::to_tf32(value) : value;
      }
    }
    return dense;
  }
  // Whether the matrix, after the operation, is in device memory.
  bool is_there(int rows, int columns) const {
    if (operation != CUBLAS_OP_N) std::swap(rows, columns);
    if (rows == 0 || columns == 0) return true;
    const std::size_t last = static_cast<std::size_t>(columns - 1) * leading + rows;
    return emulator::on_device(values, last * emulator::bytes_of(number)) &&
           reinterpret_cast<std::uintptr_t>(values) % emulator::bytes_of(number) == 0;
  }
};

std::optional<Number> number_of(cudaDataType type) {
  if (type == CUDA_R_32F) return Number::f32;
  if (type == CUDA_R_16BF) return Number::bf16;
  return std::nullopt;
}

// The workspace's contents are unspecified after a call.
void scribble(void* workspace, std::size_t bytes) {
  if (workspace != nullptr) std::memset(workspace, 0xff, std::min<std::size_t>(bytes, 1 << 16));
}

cublasStatus_t gemm(cublasContext& handle, int m, int n, int k, float alpha, const Matrix& a, const Matrix& b,
                    float beta, void* c, Number c_number, int c_leading, bool tf32) {
  const auto leads = [](const Matrix& matrix, int rows, int columns) {
    return matrix.leading >= std::max(1, matrix.operation == CUBLAS_OP_N ? rows : columns);
  };
  if (m < 0 || n < 0 || k < 0 || !leads(a, m, k) || !leads(b, k, n) || c_leading < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!a.is_there(m, k) || !b.is_there(k, n) || !Matrix{c, c_number, CUBLAS_OP_N, c_leading}.is_there(m, n)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  CUstream_st* stream = emulator::find_stream(handle.stream);
  if (stream == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // A real device would allocate memory during the capture.
  if (handle.workspace == nullptr && emulator::capture_of(*stream) != nullptr)
    return CUBLAS_STATUS_ALLOC_FAILED;

  const cudaError_t status = emulator::enqueue(
      handle.stream, [=, workspace = handle.workspace, workspace_bytes = handle.workspace_bytes] {
        scribble(workspace, workspace_bytes);
        std::vector<float> product(static_cast<std::size_t>(m) * n);
        emulator::multiply(m, n, k, a.packed(m, k, tf32).data(), b.packed(k, n, tf32).data(), product.data());
        for (int j = 0; j < n; ++j) {
          for (int i = 0; i < m; ++i) {
            emulator::blend(c_number, c, static_cast<std::size_t>(j) * c_leading + i, alpha,
                            product[static_cast<std::size_t>(i) * n + j], beta);
          }
        }
      });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// The checks at the start of every call: a valid handle and a working device.
template <class F>
cublasStatus_t call(cublasContext* handle, const F& body) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return emulator::begin_call() == cudaSuccess ? body() : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (emulator::begin_call() != cudaSuccess || emulator::check_no_capture() != cudaSuccess) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

// Resets the workspace, as the real one does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return call(handle, [&] {
    handle->stream = stream;
    handle->workspace = nullptr;
    handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  return call(handle, [&] {
    const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
    if (!aligned || (workspace != nullptr && !emulator::on_device(workspace, bytes))) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  return call(handle, [&] {
    handle->math = math;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = kVersion;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType part, int* value) {
  *value = part == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : part == MINOR_VERSION ? CUBLAS_VER_MINOR
                                   : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}

// Scalars are in host memory.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation,
                            cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int a_leading, const void* b,
                            cudaDataType b_type, int b_leading, const void* beta, void* c,
                            cudaDataType c_type, int c_leading, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  return call(handle, [&] {
    const auto a_number = number_of(a_type), b_number = number_of(b_type), c_number = number_of(c_type);
    const bool known_compute = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                               compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (!a_number || !b_number || !c_number || !known_compute || a_type != b_type ||
        (a_type == CUDA_R_32F && c_type != CUDA_R_32F)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const bool tf32 = a_type == CUDA_R_32F &&
                      (compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                       (compute == CUBLAS_COMPUTE_32F && (handle->math & CUBLAS_TF32_TENSOR_OP_MATH) != 0 &&
                        (handle->math & CUBLAS_PEDANTIC_MATH) == 0));
    return gemm(*handle, m, n, k, *static_cast<const float*>(alpha), {a, *a_number, a_operation, a_leading},
                {b, *b_number, b_operation, b_leading}, *static_cast<const float*>(beta), c, *c_number,
                c_leading, tf32);
  });
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation,
                              cublasOperation_t b_operation, int m, int n, int k, const float* alpha,
                              const float* a, int a_leading, const float* b, int b_leading, const float* beta,
                              float* c, int c_leading) {
  return cublasGemmEx(handle, a_operation, b_operation, m, n, k, alpha, a, CUDA_R_32F, a_leading, b,
                      CUDA_R_32F, b_leading, beta, c, CUDA_R_32F, c_leading, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT);
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "a status that the emulator does not report";
  }
}
