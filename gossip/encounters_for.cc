// The way to meet of each rule.
#include "gossip/encounters.h"
#include "gossip/lock_step.h"
#include "gossip/served.h"
#include "gossip/whenever.h"

namespace starling::gossip {

std::unique_ptr<Encounters> encounters_for(RunState& run, Ending& ending, Exchanges& exchanges) {
  switch (run.rule().meeting) {
    case Meeting::never:
    case Meeting::every_step:
      break;
    case Meeting::whenever:
    case Meeting::outer_rounds:
      return std::make_unique<Whenever>(run, ending, exchanges);
    case Meeting::lock_step:
      return std::make_unique<LockStep>(run, ending, exchanges);
    case Meeting::served:
      return std::make_unique<Served>(run, ending, exchanges);
  }
  return std::make_unique<NoEncounters>(run, ending, exchanges);
}

}  // namespace starling::gossip
