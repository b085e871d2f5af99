#include "lab/world/network/virtual_identity.h"

#include <string_view>

#include "tests/catch.h"

namespace starling::lab {
namespace {

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("a virtual identity has the id that it was made for, and a key of 0 has an id, too") {
  const VirtualIdentity identity(PeerId{7});
  CHECK(identity.id() == PeerId{7});
  CHECK(identity.id_of(identity.key()) == PeerId{7});
  CHECK(identity.id_of(PublicKey{}) == PeerId{1});
  CHECK(VirtualIdentity(PeerId{7}).key() == identity.key());
  CHECK(VirtualIdentity(PeerId{8}).key() != identity.key());
}

TEST_CASE("a virtual signature holds for its key and its statement only") {
  const VirtualIdentity signer(PeerId{7}), other(PeerId{8});
  const Signature signature = signer.sign(bytes("a"));
  CHECK(other.verify(signer.key(), bytes("a"), signature));
  CHECK_FALSE(other.verify(other.key(), bytes("a"), signature));
  CHECK_FALSE(other.verify(signer.key(), bytes("b"), signature));
  CHECK_FALSE(other.verify(signer.key(), bytes(""), signature));
  CHECK_FALSE(other.verify(signer.key(), bytes("a"), Signature{}));
  CHECK(signature != other.sign(bytes("a")));
}

}  // namespace starling::lab
