# Before project(): refuses places where no build can succeed, with one sentence instead of what would follow.
if(NOT CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  message(FATAL_ERROR "Starling cannot be part of another CMake project (add_subdirectory, FetchContent): build it alone, "
    "with cmake -S ${CMAKE_CURRENT_SOURCE_DIR} -B BUILD-FOLDER, and start its program or use clients/c/starling_client.h.")
endif()
if(CMAKE_BINARY_DIR STREQUAL CMAKE_SOURCE_DIR)
  message(FATAL_ERROR "Starling is not built among its sources: remove CMakeCache.txt and CMakeFiles, which CMake leaves in "
    "${CMAKE_SOURCE_DIR}, and name a build folder with cmake -B build.")
endif()
# CMake's own lists, expressions and files of the build have no way to write these.
set(cannot "[]\"#;<>|\n[]|\\$[A-Z]*[({]")
if(CMAKE_GENERATOR MATCHES "Makefiles")
  string(PREPEND cannot ":|")
endif()
foreach(place "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  if(place MATCHES "${cannot}")
    message(FATAL_ERROR "${CMAKE_GENERATOR} cannot build in '${place}', because its path contains '${CMAKE_MATCH_0}': move the "
      "checkout or the build folder to a path without it.")
  endif()
  if(CMAKE_GENERATOR MATCHES "Ninja" AND place MATCHES "[&'*?^`\t]")
    message(WARNING "Ninja does not keep the dependencies of files in '${place}', because its path contains '${CMAKE_MATCH_0}': "
      "each build may compile everything again. -G 'Unix Makefiles' compiles only what changed.")
    break()
  endif()
endforeach()
