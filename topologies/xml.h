// Escapes text for an XML document such as an SVG.
#pragma once

#include <string>
#include <string_view>

namespace starling::topologies {

// Newline and tab are the only control characters that XML allows; the others become '?'.
inline std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t')
      out += c;
    else
      out += '?';
  }
  return out;
}

}  // namespace starling::topologies
