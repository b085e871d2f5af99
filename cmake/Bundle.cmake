# Runs at installation (component `bundle`): installs the shared libraries that `built_program` needs and a bare Debian or Ubuntu
# lacks, with their licenses, and a font for figures. `parts` are files of other projects that became part of the program:
# their licenses are installed, too.
#
# Not bundled are glibc, because the loader is part of it and belongs to the system, and libstdc++ and libgcc, which every
# Debian and Ubuntu has: a module that is loaded later, such as a GPU's driver, may need newer ones than the bundled ones.
cmake_minimum_required(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${built_program}" RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^(ld-linux[^.]*|libc|libm|libdl|libpthread|librt|libresolv|libstdc\\+\\+|libgcc_s)\\.so\\.")
list(SORT libraries)
find_file(font DejaVuSans.ttf PATHS /usr/share/fonts/truetype/dejavu NO_DEFAULT_PATH REQUIRED)

# The name of the package that installed a file. Its list may have the file without /usr.
function(package_of file variable)
  string(REGEX REPLACE "^/usr/" "/" short ${file})
  foreach(path /usr${short} ${short})
    execute_process(COMMAND dpkg-query --search ${path} OUTPUT_VARIABLE found ERROR_QUIET)
    if(found MATCHES "^([^:,]+)")
      set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${file} belongs to no package, so its license is unknown")
endfunction()

set(share ${CMAKE_INSTALL_PREFIX}/share)
set(licenses ${share}/doc/starling/licenses)
set(table "")
set(packages "")
set(commons "")
foreach(file ${libraries} ${parts} ${font})
  cmake_path(GET file FILENAME name)
  file(REAL_PATH ${file} real)
  if(file STREQUAL font)
    file(INSTALL ${real} DESTINATION ${share}/starling/fonts)
  elseif(NOT file IN_LIST parts)
    file(INSTALL ${real} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/starling RENAME ${name})
  endif()
  package_of(${real} package)
  execute_process(COMMAND dpkg-query --show "--showformat=\${source:Package} \${source:Version}" ${package}
    OUTPUT_VARIABLE source)
  string(APPEND table "${name}: ${package}, built from ${source}\n")
  if(NOT package IN_LIST packages)
    list(APPEND packages ${package})
    file(REAL_PATH /usr/share/doc/${package}/copyright copyright)
    file(INSTALL ${copyright} DESTINATION ${licenses} RENAME ${package})
    file(READ ${copyright} text)
    string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9]+(-[0-9.]*[0-9])?" found "${text}")
    list(APPEND commons ${found})
  endif()
endforeach()
list(REMOVE_DUPLICATES commons)
foreach(file ${commons})
  file(REAL_PATH ${file} real)
  cmake_path(GET file FILENAME name)
  file(INSTALL ${real} DESTINATION ${licenses}/common RENAME ${name})
endforeach()
file(WRITE "$ENV{DESTDIR}${licenses}/README"
"Libraries and a font of other projects, which Starling is distributed with or contains: the file, the distribution's package that
it comes from, and the source package, which the distribution publishes. The file with the package's name has its license,
and common/ the texts that such files refer to in /usr/share/common-licenses.

${table}")
file(INSTALL ${CMAKE_CURRENT_LIST_DIR}/fonts.conf DESTINATION ${share}/starling/fonts)
