// The status and the members as JSON values (answers.cc). Heavy: for .cc files only.
#pragma once

#include <vector>

#include "node/front/status.h"
#include "training/runs/records/json.h"

namespace starling::node {

training::Json json_of(const PeerStatus& status);
training::Json json_of(const std::vector<MemberStatus>& members);  // an array

}  // namespace starling::node
