#include "topologies/topology.h"

#include <array>
#include <vector>

#include "base/text.h"
#include "topologies/name.h"

namespace starling::topologies {
namespace {

struct Row {
  const char* family;
  Result<Family> (*make)(Name& name);
};

// The two tables have one order: what is parsed, and what people read.
constexpr std::array<Row, 4> kRows = {{
    {"complete", make_complete},
    {"ring", make_ring},
    {"exponential", make_exponential},
    {"uniform", make_uniform},
}};
constexpr std::array<TopologyEntry, kRows.size()> kEntries = {{
    {"complete", "everyone beside everyone"},
    {"ring", "peer i beside i - 1 and i + 1"},
    {"exponential", "peer i beside i +- 2^k for every 2^k < n: few links, fast mixing"},
    {"uniform", "a partner drawn uniformly from everyone at every exchange"},
}};

}  // namespace

Result<Topology> Topology::parse(std::string_view text) {
  auto name = Name::parse(text);
  if (!name) return name.error();
  for (const Row& row : kRows) {
    if (name->family() != row.family) continue;
    auto family = row.make(*name);
    if (!family) return family.error();
    const auto finished = name->finish();
    if (!finished) return finished.error();
    return Topology(std::string(text), std::move(*family));
  }
  std::vector<std::string_view> known;
  for (const auto& entry : kEntries) known.push_back(entry.name);
  return Error{"topology '" + std::string(text) + "' is unknown; accepted are " + one_of(known)};
}

Status Topology::exists(std::uint32_t peers) const {
  if (peers == 0) return Error{"topology '" + name_ + "' among 0 peers does not exist; at least 1 is right"};
  return family_.exists ? family_.exists(peers) : Status(Done{});
}

std::span<const TopologyEntry> names() {
  return kEntries;
}

}  // namespace starling::topologies
