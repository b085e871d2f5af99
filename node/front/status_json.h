// The status and the members as JSON values. Heavy: for .cc files only.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "node/front/status.h"
#include "training/records/json.h"

namespace starling::node {

training::Json json_of(const PeerStatus& status);
training::Json json_of(const std::vector<MemberStatus>& members);  // an array

// A field that is missing keeps its default and an unknown one is ignored, so that older and newer peers can
// be read; a name and an id there must be.
Result<PeerStatus> status_from(const training::Json& object);
Result<std::vector<MemberStatus>> members_from(const training::Json& array);

}  // namespace starling::node
