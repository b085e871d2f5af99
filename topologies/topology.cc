#include "topologies/topology.h"

#include <array>

#include "base/text.h"
#include "topologies/name.h"

namespace starling::topologies {
namespace {

// Makes a family from its name's parameters; one without parameters is made as it is.
template <class F>
Result<Family> plain(Name&) {
  return Family{F{}};
}

struct Row {
  const char* family;
  Result<Family> (*make)(Name& name);
};

// The two tables have one order: what is parsed, and what people read.
constexpr std::array<Row, 4> kRows = {{
    {"complete", plain<Complete>},
    {"ring", plain<Ring>},
    {"exponential", plain<Exponential>},
    {"uniform", plain<Uniform>},
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
    const auto family = row.make(*name);
    if (!family) return family.error();
    const auto finished = name->finish();
    if (!finished) return finished.error();
    return Topology(std::string(text), *family);
  }
  std::vector<std::string_view> known;
  for (const auto& entry : kEntries) known.push_back(entry.name);
  return Error{"topology '" + std::string(text) + "' is unknown; accepted are " + one_of(known)};
}

std::vector<std::uint32_t> Topology::neighbors(std::uint32_t peer, std::uint32_t peers,
                                               std::uint64_t round) const {
  STARLING_CHECK(peer < peers);
  return std::visit([&](const auto& family) { return family.neighbors(peer, peers, round); }, family_);
}

std::uint64_t Topology::period(std::uint32_t peers) const {
  return std::visit([&](const auto& family) { return family.period(peers); }, family_);
}

std::span<const TopologyEntry> names() {
  return kEntries;
}

}  // namespace starling::topologies
