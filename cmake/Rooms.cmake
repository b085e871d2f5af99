# starling_room(NAME [EXCEPT folders...] [PUBLIC libs...] [PRIVATE libs...]): one library of all sources under the folder
# NAME, but for those in its EXCEPT folders, which are no part of the program. A room with no source yet is an interface.
function(starling_room name)
  cmake_parse_arguments(ARG "" "" "EXCEPT;PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  foreach(folder ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX "/${name}/${folder}/")
  endforeach()
  if(sources)
    add_library(starling_${name} STATIC ${sources})
    target_link_libraries(starling_${name} PUBLIC ${ARG_PUBLIC} PRIVATE starling_compiler ${ARG_PRIVATE})
    target_include_directories(starling_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  else()
    add_library(starling_${name} INTERFACE)
    target_link_libraries(starling_${name} INTERFACE ${ARG_PUBLIC})
    target_include_directories(starling_${name} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
endfunction()

# starling_test(ROOM [libs...]): the test program tests-ROOM of all tests/ROOM/*_test.cc.
function(starling_test room)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc)
  if(NOT sources)
    return()
  endif()
  if(STARLING_SANITIZE MATCHES "thread" AND room MATCHES "^(models|training)$")
    # Of these, scripts/test runs with the thread sanitizer what has threads alone: [arena], and [gpu] with its streams.
    foreach(source ${sources})
      file(STRINGS ${source} tag REGEX "\\[(arena|gpu)\\]" LIMIT_COUNT 1)
      if(source MATCHES "_test\\.cc$" AND NOT tag)
        list(REMOVE_ITEM sources ${source})
      endif()
    endforeach()
  endif()
  add_executable(tests-${room} ${sources})
  # Catch2 is in every file, and takes longer to read than most have to say.
  target_precompile_headers(tests-${room} PRIVATE ${CMAKE_SOURCE_DIR}/tests/catch.h)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The first, or ccache keeps away from such files. The others are false alarms on std::string (GCC bug 105329 and its
    # like), which a precompiled header lets through from the system's headers and whose coming depends on the folder's name.
    target_compile_options(tests-${room} PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow
      -Wno-stringop-overread -Wno-error=maybe-uninitialized)
  endif()
  target_link_libraries(tests-${room} PRIVATE starling_test_main starling_compiler ${ARGN})
  # Thousands of assertions, whose optimization costs more than it saves: what is slow in a test runs in the rooms.
  if(STARLING_SANITIZE)
    target_compile_options(tests-${room} PRIVATE -Og)
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(tests-${room} PRIVATE -O1)
  endif()
  target_compile_definitions(tests-${room} PRIVATE STARLING_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${room} COMMAND tests-${room} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${room} PROPERTIES LABELS ${room} TIMEOUT 1200)
endfunction()
