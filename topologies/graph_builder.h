// Collects the nodes and links of a graph that a text describes, and checks them. For the readers of
// topologies/graph_file.h. Each `place` is the node's or link's place in the text, for messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topologies/graph_file.h"

namespace starling::topologies {

inline constexpr std::uint32_t kNodesMax = 65'536;

class GraphBuilder {
 public:
  bool directed = false;  // set before the first link

  // The node with this label, which is added if it is new.
  Result<std::uint32_t> node(const std::string& place, std::string_view label);
  std::optional<std::uint32_t> find(std::string_view label) const;
  Status link(const std::string& place, std::uint32_t from, std::uint32_t to, double weight);

  // Whether every label is a number; the smallest number that is missing if they must be 0 to n - 1.
  bool is_numbered() const;
  std::optional<std::uint32_t> missing_number() const;

  // If the labels are the numbers 0 to n - 1, these are the numbers of the nodes.
  Result<GraphFile> finish() &&;

 private:
  struct Known {
    double weight;
    std::string place;
  };

  // A node that node 0 does not reach (backwards: that does not reach node 0).
  std::optional<std::uint32_t> unreached(bool backwards) const;

  std::vector<std::string> labels_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  // of the labels
  std::map<std::pair<std::uint32_t, std::uint32_t>, Known> edges_;
};

// ---- parts of texts ----

inline constexpr std::string_view kBlanks = " \t\r\f\v";

// In quotes, for messages: at most `most` bytes, without control characters.
std::string quoted(std::string_view text, std::size_t most = 80);
std::string printable(std::string_view text, std::size_t most);
std::string at_line(std::size_t line);  // "line 3"

// A whole number without a sign or a leading zero.
std::optional<std::uint32_t> node_number(std::string_view text);
// A number from 1 / kWeightMax to kWeightMax. The Error begins with `place`.
Result<double> parse_weight(const std::string& place, std::string_view text);

// Removes the part of `text` up to `separator`, and the separator, and returns the part.
std::string_view cut_off(std::string_view& text, char separator);
// The text without blanks at both ends.
std::string_view trimmed(std::string_view text);
std::string in_small_letters(std::string_view text);  // of ASCII

}  // namespace starling::topologies
