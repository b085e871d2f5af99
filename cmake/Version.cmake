# Generates base/program.h's version() at each build, not when CMake configures: so a new commit compiles one source. Unreleased
# sources (STARLING_STAGE) say which: the commit, and whether tracked files differ from it. An archive that `git archive` made
# names its commit here; sources without either have no commit.
set(archived "$Format:%H$")

# starling_version(RELEASE STAGE SOURCE VARIABLE): the version of the sources in the folder SOURCE.
function(starling_version release stage source variable)
  if(NOT stage)
    set(${variable} ${release} PARENT_SCOPE)
    return()
  endif()
  set(commit "")
  set(dirty "")
  find_program(git git)
  if(archived MATCHES "^[0-9a-f]+$")
    set(commit ${archived})
  elseif(git AND EXISTS ${source}/.git)
    # The variables that git sets for hooks may be about another repository. Commands that only read write nothing, and the
    # sources may belong to another user.
    foreach(name DIR WORK_TREE INDEX_FILE)
      unset(ENV{GIT_${name}})
    endforeach()
    set(ENV{GIT_OPTIONAL_LOCKS} 0)
    set(git ${git} -c "safe.directory=*" -c core.fsmonitor=false -c core.quotePath=false -C "${source}")
    execute_process(COMMAND ${git} rev-parse --verify HEAD OUTPUT_VARIABLE commit ERROR_QUIET)
    execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      set(dirty .dirty)
    endif()
    set(version_git "${git}" PARENT_SCOPE)
  endif()
  if(commit)
    string(SUBSTRING ${commit} 0 12 commit)
    string(PREPEND commit +)
  endif()
  set(${variable} ${release}-${stage}${commit}${dirty} PARENT_SCOPE)
endfunction()

set(version_this ${CMAKE_CURRENT_LIST_FILE})
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  starling_version("${RELEASE}" "${STAGE}" "${SOURCE}" version)
  set(text "// Made by cmake/Version.cmake.
#include \"base/program.h\"

namespace starling {

// Not constant, so that the text is in the program in one piece.
char version_text[] = \"${version}\";

std::string version() { return version_text; }

}  // namespace starling
")
  set(before "")
  if(EXISTS ${OUT})
    file(READ ${OUT} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${OUT} "${text}")
  endif()
  # What decides it: this file, so that the list is never empty (CMake does not keep an empty one), every tracked file, and what
  # git writes with a commit. Those that do not exist (any more) are no error.
  set(files "")
  if(version_git)
    execute_process(COMMAND ${version_git} ls-files OUTPUT_VARIABLE files ERROR_QUIET)
    foreach(name HEAD index logs/HEAD)
      execute_process(COMMAND ${version_git} rev-parse --git-path ${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
      string(PREPEND files "${path}\n")
    endforeach()
  endif()
  string(REGEX REPLACE "\n([^/])" "\n${SOURCE}/\\1" files "\n${version_this}\n${files}")
  string(REGEX REPLACE "\n$" "" files "${OUT}:${files}")
  string(REGEX REPLACE "([ #\\])" "\\\\\\1" files "${files}")
  string(REPLACE "$" "$$" files "${files}")
  string(REPLACE "\n" " \\\n  " files "${files}")
  file(WRITE ${OUT}.d "${files}\n")
  return()
endif()

# starling_generate_version(TARGET): adds the source to a target.
function(starling_generate_version target)
  set(out ${CMAKE_BINARY_DIR}/generated/base/version.cc)
  set(depfile DEPFILE ${out}.d)
  if(out MATCHES "[$]")  # CMake writes the path of the list into build.ninja without escaping it
    set(depfile "")
    message(STATUS "The path of the build folder contains '$': after a commit, delete ${out} to name the new version")
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DRELEASE=${PROJECT_VERSION} -DSTAGE=${STARLING_STAGE} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${out}
            -P ${version_this}
    DEPENDS ${version_this} ${depfile} VERBATIM
    COMMENT "Naming the version")
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${out})
endfunction()
