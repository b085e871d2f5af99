#include "topologies/drawing.h"

#include <cmath>
#include <cstdio>
#include <numbers>

namespace starling::topologies {
namespace {

// Two decimals: hundredths of a pixel.
std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string quote_dot(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string to_dot(const Graph& graph, std::string_view title) {
  std::string out = "graph " + quote_dot(title) + " {\n  layout=circo;\n  node [shape=circle];\n";
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) out += "  " + std::to_string(i) + ";\n";
  graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
    out += "  " + std::to_string(i) + " -- " + std::to_string(j) + ";\n";
  });
  return out + "}\n";
}

std::string to_svg(const Graph& graph, std::string_view title) {
  constexpr double kSide = 640, kMiddle = kSide / 2, kRadius = 280;
  const std::uint32_t n = graph.nodes();
  const auto x = [&](std::uint32_t i) {
    return decimal(kMiddle + (n > 1 ? kRadius * std::sin(2 * std::numbers::pi * i / n) : 0));
  };
  const auto y = [&](std::uint32_t i) {
    return decimal(kMiddle - (n > 1 ? kRadius * std::cos(2 * std::numbers::pi * i / n) : 0));
  };
  // Neither dots nor lines may run together where there are many.
  const double dot = std::min(14.0, std::max(1.5, 0.35 * 2 * std::numbers::pi * kRadius / n));
  const double line = std::min(1.5, std::max(0.1, 300.0 / static_cast<double>(graph.edge_count() + 1)));
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 640\">\n<title>" +
                    escape_xml(title) + "</title>\n<g stroke=\"#5b7c99\" stroke-width=\"" + decimal(line) +
                    "\">\n";
  graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
    out += "<line x1=\"" + x(i) + "\" y1=\"" + y(i) + "\" x2=\"" + x(j) + "\" y2=\"" + y(j) + "\"/>\n";
  });
  out += "</g>\n<g fill=\"#1d3557\">\n";
  for (std::uint32_t i = 0; i < n; ++i)
    out += "<circle cx=\"" + x(i) + "\" cy=\"" + y(i) + "\" r=\"" + decimal(dot) + "\"/>\n";
  out += "</g>\n";
  if (dot >= 8) {
    out += "<g fill=\"#ffffff\" font-family=\"sans-serif\" font-size=\"" + decimal(dot * 0.9) +
           "\" text-anchor=\"middle\" dominant-baseline=\"central\">\n";
    for (std::uint32_t i = 0; i < n; ++i)
      out += "<text x=\"" + x(i) + "\" y=\"" + y(i) + "\">" + std::to_string(i) + "</text>\n";
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

std::string to_edge_list(const Graph& graph) {
  std::string out;
  graph.for_each_edge(
      [&](std::uint32_t i, std::uint32_t j) { out += std::to_string(i) + " " + std::to_string(j) + "\n"; });
  return out;
}

std::string to_matrix(const Graph& graph) {
  STARLING_CHECK(graph.nodes() <= kMatrixNodesMax);
  std::string out;
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    for (std::uint32_t j = 0; j < graph.nodes(); ++j) {
      if (j > 0) out += ' ';
      out += i == j ? '\\' : graph.has_edge(i, j) ? '#' : '.';
    }
    out += '\n';
  }
  return out;
}

}  // namespace starling::topologies
