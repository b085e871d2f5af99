// The files of web/, as they were when the program was built (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace starling::node {

// What a peer answers to GET /: the whole page, text/html in UTF-8, which asks for nothing but api/v1 beside
// it.
std::string_view live_page();

}  // namespace starling::node
