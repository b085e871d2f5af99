// Failed members, and addresses where members may be, are pinged forever, with a capped and jittered backoff.
// A partition of any length therefore heals, and swarms that started apart find each other.
#pragma once

#include <vector>

#include "gossip/actions.h"
#include "gossip/local_view.h"

namespace starling::gossip {

class Retries {
 public:
  static constexpr std::size_t kContactsMax = 1024;

  explicit Retries(LocalView& view) : view_(view), delay_(view.options.retry_min) {}

  void start(Instant now) { next_ = now + delay_; }
  // A member of this swarm may listen there.
  void add_contact(const Address& address);
  // A member has failed: the backoff starts again.
  void restart(Instant now);
  void tick(Instant now, std::vector<Action>& out);
  Instant next_deadline() const { return next_; }

 private:
  void ping_failed(std::vector<Action>& out);
  void ping_contacts(std::vector<Action>& out);

  LocalView& view_;
  std::vector<Address> contacts_;
  Duration delay_;
  Instant next_ = kNever;
};

}  // namespace starling::gossip
