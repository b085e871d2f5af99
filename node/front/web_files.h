// The files of web/, embedded when the program was built (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace starling::node {

// The answer to GET /: the whole page, text/html in UTF-8. It requests only api/v1 of the same peer.
std::string_view live_page();

}  // namespace starling::node
