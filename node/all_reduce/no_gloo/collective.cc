#include "node/all_reduce/collective.h"

namespace starling::node {

Status check_collectives() {
  return Error{
      "this starling was built without Gloo, which all-reduce and diloco between processes need: install it "
      "(Debian: libgloo-dev) and build again, or run the experiment with 'starling simulate'"};
}

Result<std::unique_ptr<Collective>> join_collective(const CollectivePlace&) {
  return check_collectives().error();
}

}  // namespace starling::node
