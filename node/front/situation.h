// "What is going on", in one or two sentences for the page, `starling top` and `starling status`.
#pragma once

#include <string>
#include <vector>

#include "gossip/joint_start.h"
#include "node/front/live.h"
#include "node/front/status.h"

namespace starling::node {

inline constexpr double kStraggles = 2;  // the slowdown from which a member counts as a straggler

// What the peer does, how far the run is, whether its loss still falls, and which members are behind or
// gone, and why. `progress`: RunProgress::text(). `history`: of this peer, oldest first; may be empty.
// `pace`: the minimum time of a step that its owner asked for.
std::string situation_of(const PeerStatus& status, const std::vector<MemberStatus>& members,
                         const std::string& progress, const std::vector<HistoryPoint>& history,
                         Duration pace = {});

// The same while training waits for peers that begin together: how many are there, how long it waits, and why
// a joiner could not take part, if the latest `happenings` say so.
std::string waiting_situation(const gossip::JointStart::Awaited& awaited, Instant now,
                              const std::vector<Happening>& happenings);

}  // namespace starling::node
