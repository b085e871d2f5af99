# Runs at installation (component `program`): installs what depends on the built program and on where it is installed. The
# program, `built_program`, writes its manual page and completions itself, so any build that has it can be installed. The systemd
# unit, made of `unit_template`, refers to the program's installed path. `manuals` and `shared_data` are folders, relative to the
# prefix or absolute.
cmake_minimum_required(VERSION 3.25)

# The path of an installed file, whose folder exists then.
function(prepare path variable)
  cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
  set(place "$ENV{DESTDIR}${path}")
  cmake_path(GET place PARENT_PATH folder)
  file(MAKE_DIRECTORY "${folder}")
  file(REMOVE "${place}")
  message(STATUS "Installing: ${place}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${path}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
  set(${variable} "${place}" PARENT_SCOPE)
endfunction()

# What the program prints, as a file.
macro(install_output path)
  prepare("${path}" place)
  execute_process(COMMAND "${built_program}" ${ARGN} OUTPUT_FILE "${place}" ERROR_VARIABLE problem RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${built_program} cannot write ${place} (${result}): ${problem}")
  endif()
  file(CHMOD "${place}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endmacro()

install_output("${manuals}/man1/starling.1" man)
install_output("${shared_data}/bash-completion/completions/starling" completion bash)
install_output("${shared_data}/fish/vendor_completions.d/starling.fish" completion fish)
# The folders that upstream zsh and Debian's zsh read.
install_output("${shared_data}/zsh/site-functions/_starling" completion zsh)
install_output("${shared_data}/zsh/vendor-completions/_starling" completion zsh)

file(READ "${unit_template}" text)
string(REPLACE "/usr/bin/starling" "${CMAKE_INSTALL_PREFIX}/bin/starling" text "${text}")
prepare(lib/systemd/system/starling@.service place)
file(WRITE "${place}" "${text}")
file(CHMOD "${place}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
