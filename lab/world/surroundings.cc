#include "lab/world/surroundings.h"

#include <array>
#include <span>
#include <utility>

#include "base/hash.h"

namespace starling::lab {
namespace {

enum Stream : std::uint64_t { kNetworkStream = 1, kIdStream, kSpoilingStream };

Watcher& watcher_of(const WorldOptions& options) {
  static Watcher nobody;  // has no state
  return options.watcher != nullptr ? *options.watcher : nobody;
}

}  // namespace

Surroundings::Surroundings(WorldOptions o, MakeLearner make, std::vector<float> first, NetworkHost& host)
    : options(std::move(o)),
      make_learner(std::move(make)),
      first_parameters(std::move(first)),
      random(options.seed),
      ids(random.split(kIdStream)),
      spoiling(random.split(kSpoilingStream)),
      network(options.network, random.split(kNetworkStream), queue, host),
      watcher(watcher_of(options)),
      sabotage(options.sabotage) {}

PeerId Surroundings::new_id(std::uint32_t machine) {
  for (;;) {
    const PeerId id{ids.bits()};
    if (id && by_id.try_emplace(id.value, machine).second) return id;
  }
}

void Surroundings::trace(std::uint32_t machine, std::uint64_t kind, std::uint64_t detail) {
  const std::array<std::uint64_t, 4> words{static_cast<std::uint64_t>(now().since_start.count()), machine,
                                           kind, detail};
  trace_hash = hash64(std::as_bytes(std::span(words)), trace_hash);
}

}  // namespace starling::lab
