// The handshake on either side: a valid Hello of a peer whose id follows from its key, or an error and a
// closed link.
#include "tests/fuzz/pipe.h"
#include "tests/fuzz/repair.h"
#include "transport/trust/handshake.h"

using namespace starling;

namespace {

// Half of all signatures are good, so that inputs get past the proofs, whatever the nonces are.
class FuzzIdentity final : public Identity {
 public:
  FuzzIdentity() { key_.bytes[0] = std::byte{7}; }
  const PublicKey& key() const override { return key_; }
  Signature sign(Bytes) const override { return {}; }
  bool verify(const PublicKey&, Bytes, const Signature& signature) const override {
    return (signature.bytes[0] & std::byte{1}) == std::byte{0};
  }
  PeerId id_of(const PublicKey& key) const override {
    const PeerId id{load<std::uint64_t>(key.bytes.data())};
    return id ? id : PeerId{1};
  }

 private:
  PublicKey key_;
};

asio::awaitable<void> shake(transport::LinkPtr link, bool dialer, bool* over) {
  static const FuzzIdentity identity;
  transport::Self mine;
  mine.hello.swarm = "fuzz";
  mine.hello.name = "one";
  mine.hello.address = {"here", 1};
  mine.identity = &identity;
  mine.allowed = [](PeerId peer) { return peer.value % 2 == 1; };
  // Not a conditional expression: GCC 12 destroys the result of its co_await twice.
  transport::LinkResult<wire::Hello> remote = wire::Hello{};
  if (dialer) {
    remote = co_await transport::introduce(*link, mine, std::chrono::seconds(60));
  } else {
    remote = co_await transport::admit(*link, mine, std::chrono::seconds(60));
  }
  if (remote) {
    STARLING_CHECK(remote->swarm == mine.hello.swarm && remote->id == identity.id_of(remote->key));
    STARLING_CHECK(remote->id != identity.id() && mine.allowed(remote->id));
  }
  *over = true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = fuzz::copy(data + 1, size - 1);
  if (data[0] & 2) fuzz::repair(bytes);
  fuzz::Pipe pipe;
  bool over = false;
  transport::spawn(pipe.io.get_executor(), shake(pipe.far, (data[0] & 1) != 0, &over));
  pipe.feed(bytes);
  pipe.near->close();
  pipe.settle();
  STARLING_CHECK(over);
  return 0;
}
