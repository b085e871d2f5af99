#include "gossip/run_state.h"

#include <utility>

namespace starling::gossip {

namespace {

wire::Member self_of(const PeerOptions& options) {
  wire::Member self;
  self.id = options.id;
  self.name = options.name;
  self.address = options.address;
  self.http = options.http;
  return self;
}

}  // namespace

RunState::RunState(PeerOptions peer_options)
    : options(std::move(peer_options)),
      random(stream(Stream::own)),
      membership(self_of(options), options.membership, stream(Stream::membership)) {
  membership.set_progress(options.earlier.steps, 0);
}

void RunState::finish(Finish::How how, std::string why, std::vector<Action>& out) {
  over = true;
  out.push_back(Finish{how, std::move(why)});
}

void RunState::say_goodbye_and_finish(Finish::How how, std::string why, std::vector<Action>& out) {
  membership.say_goodbye(out);
  finish(how, std::move(why), out);
}

}  // namespace starling::gossip
