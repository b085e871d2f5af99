// What a trainer of another program is told of the swarm besides the words of its region (docs/TRAINERS.md):
// which members live, come and go, with whom exchanges are mixed, and what the peer waits for.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gossip/actions.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/teller.h"

namespace starling::node {

class TrainerNews {
 public:
  // Answers the trainer of `listening`, if it has one, until this object is gone.
  TrainerNews(Listening& listening, const Lives& lives, const Teller& teller);
  ~TrainerNews();
  TrainerNews(const TrainerNews&) = delete;
  TrainerNews& operator=(const TrainerNews&) = delete;

  // `told`: the sentence that was logged; empty if none was.
  void tell(const gossip::Notice& notice, const std::string& told);
  // An exchange with this member has ended, begun by either side.
  void exchanged(PeerId with);

 private:
  std::vector<std::string> living();
  std::vector<std::string> members() const;
  std::string name_of(PeerId member) const;

  Attachment* const attachment_;
  const Lives& lives_;
  const Teller& teller_;
  std::set<PeerId> live_;    // that the trainer was told of
  std::uint64_t mixes_ = 0;  // of the arena, up to the last one that the trainer was told of
};

}  // namespace starling::node
