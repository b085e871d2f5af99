# starling_embed(TARGET): web/'s files into the program, so that it needs none at run time. Run with -P, it makes the source.
set(embed_this ${CMAKE_CURRENT_LIST_FILE})
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(text "// Made of web/ by cmake/Embed.cmake.\n#include \"lab/web_files.h\"\n\nnamespace starling::lab {\n\n")
  foreach(pair report.html:report_template report.css:report_style report.js:report_script)
    string(REGEX MATCH "^(.*):(.*)$" matched ${pair})
    file(READ ${WEB}/${CMAKE_MATCH_1} bytes HEX)
    set(name ${CMAKE_MATCH_2})
    # Thirty-two bytes a line.
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
    string(REPEAT "\\\\x[0-9a-f][0-9a-f]" 32 line)
    string(REGEX REPLACE "(${line})" "\\1\"\n    \"" bytes "${bytes}")
    string(APPEND text "std::string_view ${name}() {\n  static constexpr std::string_view kText =\n    \"${bytes}\";\n  return kText;\n}\n\n")
  endforeach()
  file(WRITE ${OUT} "${text}}  // namespace starling::lab\n")
  return()
endif()

function(starling_embed target)
  set(out ${CMAKE_BINARY_DIR}/generated/lab/web_files.cc)
  set(web ${CMAKE_SOURCE_DIR}/web)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DWEB=${web} -DOUT=${out} -P ${embed_this}
    DEPENDS ${web}/report.html ${web}/report.css ${web}/report.js ${embed_this}
    COMMENT "Embedding web/")
  target_sources(${target} PRIVATE ${out})
endfunction()
