# Rules for `cmake --install`, for the .deb packages (`cpack -G DEB`), and for the tarball and the wheel, which scripts/package
# makes from the components. `program`: the program with its documents. `cuda`: the CUDA module, separate because Debian does
# not package its libraries. `bundle`: what the program needs and a bare system lacks; only in the tarball and the wheel.
include(GNUInstallDirs)

# The loader searches the bundle's folder before the system's. DT_RPATH also applies to the libraries' own dependencies;
# DT_RUNPATH would not.
set_target_properties(starling PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/starling" INSTALL_RPATH_USE_LINK_PATH ON
  BUILD_WITH_INSTALL_RPATH ON)
target_link_options(starling PRIVATE LINKER:--disable-new-dtags)
install(TARGETS starling RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
# CMake's own script takes a variable with the name of a component for its value, so these have longer names.
install(CODE "set(built_program [==[$<TARGET_FILE:starling>]==])
set(unit_template [==[${CMAKE_SOURCE_DIR}/scripts/deploy/starling@.service]==])
set(manuals [==[${CMAKE_INSTALL_MANDIR}]==])
set(shared_data [==[${CMAKE_INSTALL_DATADIR}]==])" COMPONENT program)
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/Extras.cmake COMPONENT program)
install(DIRECTORY experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/starling COMPONENT program FILES_MATCHING PATTERN "*.toml")
install(FILES README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY scripts/deploy DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
if(TARGET starling_cuda)
  # The program searches this folder (kernels/cuda_module.cc).
  install(TARGETS starling_cuda LIBRARY DESTINATION lib/starling COMPONENT cuda OPTIONAL)
endif()
install(CODE "set(built_program [==[$<TARGET_FILE:starling>]==])
set(parts [==[${PROTOBUF_LITE};${ONNX_SCHEMA_DIR}/onnx/onnx.proto]==])" COMPONENT bundle EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/Bundle.cmake COMPONENT bundle EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME starling)
set(CPACK_PACKAGE_VENDOR "Starling")
# Debian requires a name and an address. The project has no public address, so the default is in a reserved domain (RFC
# 2606). A distributor of packages sets it: cmake -DSTARLING_MAINTAINER="Name <address>".
set(STARLING_MAINTAINER "Starling developers <starling-developers@example.org>" CACHE STRING "Maintainer of the packages")
if(NOT STARLING_MAINTAINER MATCHES "^[^<>]+ <[^<>@ ]+@[^<>@ ]+\\.[^<>@. ]+>$")
  message(FATAL_ERROR "STARLING_MAINTAINER is '${STARLING_MAINTAINER}', and not of the form Name <local@domain.tld>")
endif()
set(CPACK_PACKAGE_CONTACT "${STARLING_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/Package.cmake)
set(CPACK_STARLING_VERSION_SOURCE ${CMAKE_BINARY_DIR}/generated/base/version.cc)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/Debian.cmake)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME starling)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)  # of `starling data fetch`
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS avahi-daemon)  # of `starling peer --discover`
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
"Every peer trains its own copy of a model and now and then averages its
parameters with one neighbor: no master, no parameter server, no barrier.")
if(TARGET starling_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME starling-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "libc6, libgcc-s1, libstdc++6")  # and the program (Package.cmake)
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "The back end of Starling for NVIDIA GPUs. CUDA and cuDNN are not part of it.")
endif()
include(CPack)
