# Runs when CPack begins (CPACK_PROJECT_CONFIG_FILE): the packages have the version of the program that was built, which may be
# of a later commit than the configuration. Debian sorts "0.4.0~dev+COMMIT" before "0.4.0".
file(STRINGS "${CPACK_STARLING_VERSION_SOURCE}" line REGEX "version_text\\[\\] = ")
string(REGEX MATCH "\"(.*)\"" matched "${line}")
string(REPLACE "-" "~" CPACK_PACKAGE_VERSION "${CMAKE_MATCH_1}")
set(CPACK_DEBIAN_PACKAGE_VERSION "${CPACK_PACKAGE_VERSION}")
if(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS)
  string(PREPEND CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "starling (= ${CPACK_PACKAGE_VERSION}), ")
endif()
