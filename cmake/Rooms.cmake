# Both save most of the build's time, which the compiler spends on the standard library. Without them each source shows which
# header it forgot to include, and a change to one source compiles only that source.
option(STARLING_PRECOMPILE "Precompile the headers that most sources include" ON)
option(STARLING_UNITY "Compile the sources of a room in batches" ON)

# starling_precompile(TARGET HEADERS...): precompiles headers for all sources of a target. The headers that another target with
# the same compiler options has precompiled are shared: starling_precompile(TARGET REUSE_FROM OTHER).
function(starling_precompile target)
  if(NOT STARLING_PRECOMPILE)
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache requires the first option. The others are false alarms on std::string (GCC bug 105329 and similar ones), which
    # GCC reports for system headers only if they are precompiled.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-error=maybe-uninitialized>)
  endif()
endfunction()

# starling_unify(TARGET SIZE): compiles the sources of a target in batches of SIZE. Names in anonymous namespaces must then be
# unique in a target.
function(starling_unify target size)
  if(NOT STARLING_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes a source that a batch includes for a header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()

# starling_batch(VARIABLE EXTENSION SIZE SOURCES...): files with this extension that include SIZE of the sources each, where CMake
# makes no batches itself: for CUDA, and for sources with options of their own.
function(starling_batch variable extension size)
  if(NOT STARLING_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(batches)
  set(sources ${ARGN})
  while(sources)
    list(LENGTH batches number)
    list(SUBLIST sources 0 ${size} batch)
    list(REMOVE_ITEM sources ${batch})
    list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN batch "" text)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${variable}_${number}.${extension})
    file(CONFIGURE OUTPUT ${file} CONTENT "@text@" @ONLY)
    list(APPEND batches ${file})
  endwhile()
  set(${variable} ${batches} PARENT_SCOPE)
endfunction()

# starling_sources(VARIABLE FOLDERS... [EXCEPT folders-or-files...]): all sources under FOLDERS, except EXCEPT and what is under
# it. The paths are compared without the path of the checkout, which may contain any character.
function(starling_sources variable)
  cmake_parse_arguments(ARG "" "" "EXCEPT" ${ARGN})
  set(sources)
  foreach(folder ${ARG_UNPARSED_ARGUMENTS})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  foreach(except ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX "^${except}(/|$)")
  endforeach()
  list(TRANSFORM sources PREPEND "${CMAKE_SOURCE_DIR}/")
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# starling_room(NAME [SEPARATE] [FOLDERS folders...] [EXCEPT folders-or-files...] [COLD folders...] [OPTIMIZE level]
# [PRECOMPILE headers... | PRECOMPILED_FOR room] [PUBLIC libs...] [PRIVATE libs...]): the library starling_NAME of all sources
# under FOLDERS (default: NAME), except EXCEPT and what is under it. A Release build compiles it with -O2 or the given level,
# and the COLD folders, which run rarely, with -O1. base/standard.h and PRECOMPILE are precompiled for it; PRECOMPILED_FOR: it
# shares those of a room with the same options. SEPARATE: not in batches.
function(starling_room name)
  cmake_parse_arguments(ARG "SEPARATE" "OPTIMIZE;PRECOMPILED_FOR" "FOLDERS;EXCEPT;COLD;PRECOMPILE;PUBLIC;PRIVATE" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS ${name})
  endif()
  starling_sources(sources ${ARG_FOLDERS} EXCEPT ${ARG_EXCEPT} ${ARG_COLD})
  add_library(starling_${name} STATIC ${sources})
  set(targets starling_${name})
  starling_optimize(starling_${name} "${ARG_OPTIMIZE}")
  if(ARG_COLD)
    starling_sources(sources ${ARG_COLD})
    add_library(starling_${name}_cold OBJECT ${sources})
    target_sources(starling_${name} PRIVATE $<TARGET_OBJECTS:starling_${name}_cold>)
    list(APPEND targets starling_${name}_cold)
    starling_optimize(starling_${name}_cold 1)
  endif()
  foreach(target ${targets})
    target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE starling_compiler ${ARG_PRIVATE})
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
    set(shared "${ARG_PRECOMPILED_FOR}")
    if(STARLING_SANITIZE AND name IN_LIST STARLING_NOT_SANITIZED)
      set(shared "")  # its options differ
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=all;-O0;-g0>)
    endif()
    if(shared)
      starling_precompile(${target} REUSE_FROM starling_${shared})
    else()
      starling_precompile(${target} ${CMAKE_SOURCE_DIR}/base/standard.h ${ARG_PRECOMPILE})
    endif()
    if(NOT ARG_SEPARATE)
      starling_unify(${target} 24)
    endif()
  endforeach()
endfunction()

# starling_optimize(TARGET LEVEL): the optimization level of a target in a Release build; empty: -O2. Under the
# sanitizers, code that runs rarely (level 1) is not optimized, and variables used after their scope are not looked for: this
# halves its compile time.
function(starling_optimize target level)
  if(NOT level)
    set(level 2)
  endif()
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O${level}>)
  if(STARLING_SANITIZE AND level EQUAL 1)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0;-fno-sanitize-address-use-after-scope>)
    if(STARLING_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:--param=asan-instrumentation-with-call-threshold=0>)
    endif()
  endif()
endfunction()

# The compiler options of test programs. Optimizing thousands of assertions costs more than it saves, because the slow code of a
# test is in the rooms. Checks for undefined behavior and for variables used after their scope, and line numbers in every
# assertion, cost more than half of the sanitizers' build and find nothing in the rooms, which have their own.
function(starling_test_options target)
  if(STARLING_SANITIZE)
    target_compile_options(${target} PRIVATE -Og -g0 -fno-sanitize=undefined -fno-sanitize-address-use-after-scope)
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${target} PRIVATE -Og)
  endif()
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
  starling_precompile(tests-${room} REUSE_FROM starling_test_headers)
  target_link_libraries(tests-${room} PRIVATE starling_test_main starling_compiler ${ARGN})
  starling_test_options(tests-${room})
  starling_unify(tests-${room} 16)
  target_compile_definitions(tests-${room} PRIVATE STARLING_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${room} COMMAND tests-${room} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${room} PROPERTIES LABELS ${room} TIMEOUT 1200)
endfunction()
