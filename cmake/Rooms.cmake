# starling_precompile(TARGET HEADERS...): precompiles headers for all sources of a target. Reading the standard library takes
# most of the compiler's time for a typical source.
function(starling_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache requires the first option. The others are false alarms on std::string (GCC bug 105329 and similar ones), which
    # GCC reports for system headers only if they are precompiled.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-error=maybe-uninitialized>)
  endif()
endfunction()

# starling_room(NAME [FOLDERS folders...] [EXCEPT folders...] [OPTIMIZE level] [PRECOMPILE headers...] [PUBLIC libs...]
# [PRIVATE libs...]): the library starling_NAME of all sources under FOLDERS (default: NAME), except those under the EXCEPT
# folders. A Release build compiles it with -O2 or the given level. base/standard.h and PRECOMPILE are precompiled for it.
function(starling_room name)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "FOLDERS;EXCEPT;PRECOMPILE;PUBLIC;PRIVATE" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS ${name})
  endif()
  set(sources)
  foreach(folder ${ARG_FOLDERS})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  foreach(folder ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/${folder}/")
  endforeach()
  add_library(starling_${name} STATIC ${sources})
  target_link_libraries(starling_${name} PUBLIC ${ARG_PUBLIC} PRIVATE starling_compiler ${ARG_PRIVATE})
  target_include_directories(starling_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  starling_optimize(starling_${name} "${ARG_OPTIMIZE}")
  starling_precompile(starling_${name} ${CMAKE_SOURCE_DIR}/base/standard.h ${ARG_PRECOMPILE})
endfunction()

# starling_optimize(TARGET LEVEL): the optimization level of a target in a Release build; empty: -O2.
function(starling_optimize target level)
  if(NOT level)
    set(level 2)
  endif()
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O${level}>)
endfunction()

# starling_cold(FOLDERS...): a Release build compiles the sources under these folders with -O1, because they run rarely and
# the optimizer would take most of their build time.
function(starling_cold)
  foreach(folder ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# starling_test(ROOM [libs...]): the test program tests-ROOM of all tests/ROOM/*_test.cc.
function(starling_test room)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc)
  if(NOT sources)
    return()
  endif()
  if(STARLING_SANITIZE MATCHES "thread" AND room MATCHES "^(models|training)$")
    # scripts/test runs only the cases with threads of these rooms under the thread sanitizer: [arena], and [gpu] with streams.
    foreach(source ${sources})
      file(STRINGS ${source} tag REGEX "\\[(arena|gpu)\\]" LIMIT_COUNT 1)
      if(source MATCHES "_test\\.cc$" AND NOT tag)
        list(REMOVE_ITEM sources ${source})
      endif()
    endforeach()
  endif()
  add_executable(tests-${room} ${sources})
  starling_precompile(tests-${room} ${CMAKE_SOURCE_DIR}/tests/catch.h)
  target_link_libraries(tests-${room} PRIVATE starling_test_main starling_compiler ${ARGN})
  # Optimizing thousands of assertions costs more than it saves: the slow code of a test is in the rooms.
  if(STARLING_SANITIZE)
    target_compile_options(tests-${room} PRIVATE -Og)
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(tests-${room} PRIVATE -O1)
  endif()
  target_compile_definitions(tests-${room} PRIVATE STARLING_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${room} COMMAND tests-${room} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${room} PROPERTIES LABELS ${room} TIMEOUT 1200)
endfunction()
