# Which compilers are supported, warnings, sanitizers and ccache, in one interface target that every target of ours links.

# Older ones lack parts of C++20, or instruction sets of target_clones.
set(minimum_GNU 12)
set(minimum_Clang 16)
if(NOT DEFINED minimum_${CMAKE_CXX_COMPILER_ID} OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS minimum_${CMAKE_CXX_COMPILER_ID})
  message(FATAL_ERROR "Starling needs GCC ${minimum_GNU} or newer, or Clang ${minimum_Clang} or newer, and ${CMAKE_CXX_COMPILER} "
    "is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: name another compiler with -DCMAKE_CXX_COMPILER=g++-12 in a new "
    "build folder.")
endif()

add_library(starling_compiler INTERFACE)
target_include_directories(starling_compiler INTERFACE ${CMAKE_SOURCE_DIR})
# OFF helps to build with a compiler that the project is not tested with.
option(STARLING_WARNINGS "Enable warnings and treat them as errors" ON)
if(STARLING_WARNINGS)
  target_compile_options(starling_compiler INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Wold-style-cast;-Werror>"
    # nvcc's output for the host compiler does not pass -Wpedantic.
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>")
endif()
if(STARLING_WARNINGS AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(starling_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)  # of GCC, on loops
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms: on std::string (GCC bug 105329), on coroutine frames, and on a unique_ptr within a variant.
  target_compile_options(starling_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-mismatched-new-delete;-Wno-free-nonheap-object>)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage below half a gigabyte takes a tenth of the compiler's time.
  target_compile_options(starling_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()

# Equal sources give equal programs in every folder, without its path: the checkout is ".", and the build folder "./build". ccache
# shortens the checkout's path to the relative one. The last option wins. A debugger needs the paths, and an option cannot have
# an "=" in them, nor one of nvcc's a comma.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  file(RELATIVE_PATH to_source "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" to_source "${to_source}")
  foreach(pair "${CMAKE_SOURCE_DIR}=." "${to_source}=." "${CMAKE_BINARY_DIR}=./build")
    if(NOT pair MATCHES "=.*=")
      add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${pair}>")
      if(NOT pair MATCHES ",")
        add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${pair}>")
      endif()
    endif()
  endforeach()
endif()

if(STARLING_SANITIZE)
  # Not for nvcc: the emulated device runs its files under the sanitizers (tests/emulator). The checks of every pointer would
  # take 40 % of the build's time. The address sanitizer finds null pointers and wrong sizes as well; scripts/fuzz, which has
  # all checks, covers the alignment of received bytes.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STARLING_SANITIZE};-fno-omit-frame-pointer>"
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,alignment,object-size,pointer-overflow,vptr>"
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all;-O1;-g1>")
  add_link_options(-fsanitize=${STARLING_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # A false alarm on instrumented code at a low level of optimization.
    target_compile_options(starling_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  if(STARLING_SANITIZE MATCHES "thread")
    # TSan does not understand fences; Asio uses them only around handlers.
    add_compile_definitions(ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# Clones of an object between checkouts share ccache's results only with the source folder taken out of the hash. The rest
# is what it needs for files that a precompiled header is read before.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
