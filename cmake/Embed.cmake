# starling_embed(ROOM FOLDER FUNCTION=FILES...): compiles files of web/ into a room, so that the program does not need them at
# run time. Defines each function that ROOM/FOLDER/web_files.h declares; it returns the concatenated text of its files, which
# are separated by +. In a file, @NAME@ is replaced by the text of web/NAME. The text is also written to
# generated/ROOM/FUNCTION for tests. With -P this file generates the source.
set(embed_this ${CMAKE_CURRENT_LIST_FILE})
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(source "// Made of web/ by cmake/Embed.cmake.\n#include \"${ROOM}/${FOLDER}/web_files.h\"\n\nnamespace starling::${ROOM} {\n\n")
  string(REPLACE "," ";" FUNCTIONS "${FUNCTIONS}")
  foreach(pair ${FUNCTIONS})
    string(REGEX MATCH "^(.*)=(.*)$" matched ${pair})
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "+" ";" files ${CMAKE_MATCH_2})
    set(text "")
    foreach(file ${files})
      file(READ ${WEB}/${file} part)
      string(APPEND text "${part}")
    endforeach()
    file(GLOB parts RELATIVE ${WEB} ${WEB}/*)
    foreach(part ${parts})
      file(READ ${WEB}/${part} inlined)
      string(REPLACE "@${part}@" "${inlined}" text "${text}")
    endforeach()
    file(WRITE ${OUT}/${name} "${text}")
    string(HEX "${text}" bytes)
    # Thirty-two bytes a line.
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
    string(REPEAT "\\\\x[0-9a-f][0-9a-f]" 32 line)
    string(REGEX REPLACE "(${line})" "\\1\"\n    \"" bytes "${bytes}")
    string(APPEND source "std::string_view ${name}() {\n  static constexpr std::string_view kText =\n    \"${bytes}\";\n  return kText;\n}\n\n")
  endforeach()
  file(WRITE ${OUT}/web_files.cc "${source}}  // namespace starling::${ROOM}\n")
  return()
endif()

function(starling_embed room folder)
  set(out ${CMAKE_BINARY_DIR}/generated/${room})
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*)
  string(REPLACE ";" "," functions "${ARGN}")
  add_custom_command(OUTPUT ${out}/web_files.cc
    COMMAND ${CMAKE_COMMAND} -DROOM=${room} -DFOLDER=${folder} -DFUNCTIONS=${functions} -DWEB=${CMAKE_SOURCE_DIR}/web -DOUT=${out} -P ${embed_this}
    DEPENDS ${files} ${embed_this}
    COMMENT "Embedding web/ into ${room}")
  target_sources(starling_${room} PRIVATE ${out}/web_files.cc)
endfunction()
