# The code of ONNX's format, generated from the schema in ONNX's package and linked statically, so that the program needs no
# library of ONNX at run time.
find_program(PROTOC protoc REQUIRED)
find_path(ONNX_SCHEMA_DIR onnx/onnx.proto REQUIRED)
find_library(PROTOBUF_LITE libprotobuf-lite.a REQUIRED)
set(onnx_code ${CMAKE_BINARY_DIR}/generated/onnx)
add_custom_command(OUTPUT ${onnx_code}/onnx.pb.cc ${onnx_code}/onnx.pb.h
  COMMAND ${CMAKE_COMMAND} -E make_directory ${onnx_code}
  COMMAND ${PROTOC} --proto_path=${ONNX_SCHEMA_DIR}/onnx --cpp_out=lite:${onnx_code} ${ONNX_SCHEMA_DIR}/onnx/onnx.proto
  DEPENDS ${ONNX_SCHEMA_DIR}/onnx/onnx.proto VERBATIM
  COMMENT "Generating onnx.pb.h")
add_library(starling_onnx STATIC ${onnx_code}/onnx.pb.cc)
target_include_directories(starling_onnx SYSTEM PUBLIC ${onnx_code})
target_link_libraries(starling_onnx PUBLIC ${PROTOBUF_LITE} Threads::Threads)
