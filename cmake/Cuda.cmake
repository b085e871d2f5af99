# Finds CUDA: the toolkit's compiler and libraries, and cuDNN. Only a module beside the program (libstarling_cuda.so) uses
# them, so the program also runs on machines without them. The tests need only CUDA's headers, because their emulated device
# runs on the processor.
#
# Sets STARLING_CUDA_INCLUDE_DIRS (empty: no headers) and STARLING_HAS_CUDA (whether the module can be built; it implies the
# language CUDA and the target starling_cuda_libraries).
set(STARLING_CUDA AUTO CACHE STRING "Build the CUDA back end: ON, OFF, or AUTO, where the toolkit and cuDNN are found")
set_property(CACHE STARLING_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STARLING_HAS_CUDA OFF)
set(STARLING_CUDA_INCLUDE_DIRS "")
if(STARLING_CUDA STREQUAL "OFF" OR STARLING_FUZZ)
  message(STATUS "CUDA back end: off")
  return()
endif()

# The toolkit is often installed outside of the PATH.
find_program(STARLING_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDAToolkit_ROOT}/bin $ENV{CUDA_PATH}/bin
  PATHS /usr/local/cuda/bin)
if(STARLING_NVCC)
  file(REAL_PATH ${STARLING_NVCC} cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
endif()
set(cuda_places ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH} ${cuda_root} /usr/local/cuda)
set(cuda_include_suffixes include targets/x86_64-linux/include targets/sbsa-linux/include)
set(cuda_library_suffixes lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
find_path(STARLING_CUDA_INCLUDE_DIR cuda_runtime.h HINTS ${cuda_places} PATH_SUFFIXES ${cuda_include_suffixes})
find_path(STARLING_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${cuda_places} PATH_SUFFIXES ${cuda_include_suffixes})
find_path(STARLING_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDNN_ROOT} ${cuda_places} PATH_SUFFIXES ${cuda_include_suffixes})
foreach(library cudart_static cublas cublasLt cudnn)
  find_library(STARLING_LIBRARY_${library} ${library} HINTS ${CUDNN_ROOT} ${cuda_places}
    PATH_SUFFIXES ${cuda_library_suffixes})
endforeach()

set(cuda_missing "")
foreach(part IN ITEMS "nvcc:STARLING_NVCC" "cuda_runtime.h:STARLING_CUDA_INCLUDE_DIR" "cublas_v2.h:STARLING_CUBLAS_INCLUDE_DIR"
    "cudnn.h:STARLING_CUDNN_INCLUDE_DIR" "libcudart_static.a:STARLING_LIBRARY_cudart_static"
    "libcublas.so:STARLING_LIBRARY_cublas" "libcublasLt.so:STARLING_LIBRARY_cublasLt" "libcudnn.so:STARLING_LIBRARY_cudnn")
  string(REGEX MATCH "^(.*):(.*)$" matched ${part})
  if(NOT ${CMAKE_MATCH_2})
    list(APPEND cuda_missing ${CMAKE_MATCH_1})
  endif()
endforeach()
list(JOIN cuda_missing ", " cuda_missing)

if(STARLING_CUDA_INCLUDE_DIR AND STARLING_CUBLAS_INCLUDE_DIR AND STARLING_CUDNN_INCLUDE_DIR)
  set(STARLING_CUDA_INCLUDE_DIRS ${STARLING_CUDA_INCLUDE_DIR} ${STARLING_CUBLAS_INCLUDE_DIR} ${STARLING_CUDNN_INCLUDE_DIR})
  list(REMOVE_DUPLICATES STARLING_CUDA_INCLUDE_DIRS)
endif()
if(cuda_missing)
  if(STARLING_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STARLING_CUDA is ON, but these are missing: ${cuda_missing}. Set CUDAToolkit_ROOT to the toolkit "
      "and CUDNN_ROOT to cuDNN.")
  endif()
  message(STATUS "CUDA back end: not built; missing: ${cuda_missing}")
  return()
endif()

# The architectures are those of the GPUs since 2020, whose tensor cores support bfloat16.
set(CMAKE_CUDA_COMPILER ${STARLING_NVCC} CACHE FILEPATH "nvcc")
set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "The compute capabilities that the CUDA back end is built for")
enable_language(CUDA)
# CMake before 3.28 does not set the C++20 flag of newer compilers.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_library(starling_cuda_libraries INTERFACE)
target_include_directories(starling_cuda_libraries SYSTEM INTERFACE ${STARLING_CUDA_INCLUDE_DIRS})
target_link_libraries(starling_cuda_libraries INTERFACE ${STARLING_LIBRARY_cublas} ${STARLING_LIBRARY_cublasLt}
  ${STARLING_LIBRARY_cudnn} ${STARLING_LIBRARY_cudart_static} Threads::Threads ${CMAKE_DL_LIBS} rt)
set(STARLING_HAS_CUDA ON)
message(STATUS "CUDA back end: built with ${STARLING_NVCC} ${CMAKE_CUDA_COMPILER_VERSION}")
