# Everything comes from the distribution's packages (scripts/deps installs them).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
if(NOT STARLING_FUZZ)
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(NOT TARGET OpenMP::OpenMP_CXX)
    set(openmp_package "libgomp1 and g++")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      string(REGEX MATCH "^[0-9]+" clang_major ${CMAKE_CXX_COMPILER_VERSION})
      set(openmp_package "libomp-${clang_major}-dev")
    endif()
    message(FATAL_ERROR "The OpenMP of ${CMAKE_CXX_COMPILER} is missing: install ${openmp_package}.")
  endif()
endif()
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(dnnl REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(Spectra REQUIRED NO_MODULE)
find_package(pugixml REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(FlatBuffers QUIET)
if(NOT FlatBuffers_FOUND)
  find_package(Flatbuffers REQUIRED)  # the spelling of FlatBuffers before 23
endif()
if(TARGET pugixml AND NOT TARGET pugixml::pugixml)
  add_library(pugixml::pugixml ALIAS pugixml)
endif()
# Optional: the collectives of --rule all-reduce between processes.
find_package(Gloo QUIET)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
# Whether the library selects its instruction set at run time, as Debian's does on x86-64.
include(CheckLibraryExists)
check_library_exists(xxhash XXH3_64bits_withSeed_dispatch "${xxhash_LIBRARY_DIRS}" STARLING_XXHASH_DISPATCHES)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(avahi REQUIRED IMPORTED_TARGET avahi-client)
# Figures for papers (lab/plot). pkg-config would require the headers of everything that Cairo is made with, such as X11.
find_path(CAIRO_INCLUDE_DIR cairo-pdf.h PATH_SUFFIXES cairo REQUIRED)
find_library(CAIRO_LIBRARY cairo REQUIRED)
add_library(starling_cairo INTERFACE)
target_include_directories(starling_cairo SYSTEM INTERFACE ${CAIRO_INCLUDE_DIR})
target_link_libraries(starling_cairo INTERFACE ${CAIRO_LIBRARY})
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
if(TARGET dnnl::dnnl AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl ALIAS dnnl::dnnl)
endif()

# Fast AES-GCM for TLS on x86-64; without it OpenSSL's is used.
find_path(ipsec_mb_headers intel-ipsec-mb.h)
find_library(ipsec_mb_library IPSec_MB)

# Asio's implementation is compiled once, in transport/asio.cc.
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
add_library(starling_asio INTERFACE)
target_include_directories(starling_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
target_compile_definitions(starling_asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
  ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE=16  # coroutine frames kept for the next ones: as many as nest in an exchange
  ASIO_DISABLE_STD_ALIGNED_ALLOC)  # Asio 1.22 decides this by what was included before it: every file must agree
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Older versions of Asio do not notice that Clang has the standard's coroutines.
  target_compile_definitions(starling_asio INTERFACE ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
endif()
target_link_libraries(starling_asio INTERFACE Threads::Threads)

# The control messages' schema. Generated code asserts the exact version of its library, so it is made at build time.
find_program(FLATC flatc REQUIRED)
set(protocol_header ${CMAKE_BINARY_DIR}/generated/wire/protocol_generated.h)
add_custom_command(OUTPUT ${protocol_header}
  COMMAND ${FLATC} --cpp --scoped-enums --cpp-std c++17 -o ${CMAKE_BINARY_DIR}/generated/wire
          ${CMAKE_SOURCE_DIR}/wire/protocol.fbs
  DEPENDS ${CMAKE_SOURCE_DIR}/wire/protocol.fbs VERBATIM
  COMMENT "Generating wire/protocol_generated.h")
add_custom_target(starling_protocol_header DEPENDS ${protocol_header})
add_library(starling_protocol INTERFACE)
target_include_directories(starling_protocol SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated)
add_dependencies(starling_protocol starling_protocol_header)
