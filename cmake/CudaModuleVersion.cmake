# Generates kernels/cuda_module_version.h: a number that changes with every header that the program and its CUDA module share,
# so that the program rejects a module of another build.
file(GLOB seam_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.h)
list(APPEND seam_headers ${CMAKE_SOURCE_DIR}/base/result.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${seam_headers})
set(seam "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_SYSTEM_PROCESSOR}")
foreach(header ${seam_headers})
  file(SHA256 ${header} hash)
  string(APPEND seam ${hash})
endforeach()
string(SHA256 seam "${seam}")
string(SUBSTRING ${seam} 0 8 seam)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/seam/kernels/cuda_module_version.h @ONLY CONTENT
"#pragma once

namespace starling::kernels {

inline constexpr unsigned kCudaModuleVersion = 0x@seam@U;

}  // namespace starling::kernels
")
target_include_directories(starling_kernels PUBLIC ${CMAKE_BINARY_DIR}/seam)
