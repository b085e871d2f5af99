# Runs before CPack makes a .deb (CPACK_PRE_BUILD_SCRIPTS), on the installed trees of its components: what Debian's policy wants
# of a package and no other installation has. A compressed manual page (12.1), a changelog (12.7), and a copyright file with the
# holder, which refers to the system's text of the license (12.5).
cmake_minimum_required(VERSION 3.25)
find_program(gzip gzip REQUIRED)

# Without the time and the name, so that the same build gives the same bytes.
function(compress file)
  execute_process(COMMAND ${gzip} --best --no-name --force "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # or that of $SOURCE_DATE_EPOCH
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share")
  set(documents "${share}/doc/${package}")
  file(GLOB pages "${share}/man/man1/*.1")
  foreach(page ${pages})
    compress("${page}")
  endforeach()
  file(MAKE_DIRECTORY "${documents}")
  file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/copyright" "${documents}/copyright")
  file(WRITE "${documents}/changelog" "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n
  * /usr/share/doc/starling/CHANGELOG.md lists what users see.\n
 -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
  compress("${documents}/changelog")
endforeach()
