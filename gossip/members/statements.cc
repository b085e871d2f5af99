#include "gossip/members/statements.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace starling::gossip {
namespace {

// The first byte. 3 and 4 belong to the handshake, which the same keys sign.
enum class Kind : std::uint8_t { member = 1, rewire = 2, answer = 5 };

// Appends values in little-endian order, and texts after their length.
class Writer {
 public:
  explicit Writer(Kind kind, const PublicKey& key) {
    put(static_cast<std::uint8_t>(kind));
    put_bytes(key.bytes);
  }
  template <class T>
  void put(T value) {
    bytes_.resize(bytes_.size() + sizeof value);
    store(bytes_.data() + bytes_.size() - sizeof value, value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void put_bytes(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> statement_of(const wire::Member& member) {
  Writer writer(Kind::member, member.key);
  writer.put(member.incarnation);
  writer.put(static_cast<std::uint8_t>(member.liveness == wire::Liveness::left));
  writer.put(static_cast<std::uint8_t>(member.phase));
  writer.put(member.address.port);
  for (const std::string* text : {&member.address.host, &member.name, &member.http, &member.device})
    writer.put_text(*text);
  writer.put(static_cast<std::uint8_t>(member.also.size()));
  for (const Address& address : member.also) {
    writer.put(address.port);
    writer.put_text(address.host);
  }
  writer.put(static_cast<std::uint8_t>(member.homes.size()));
  for (const PeerId home : member.homes) writer.put(home.value);
  writer.put(member.relays);
  return writer.take();
}

std::vector<std::byte> statement_of(const wire::Rewire& rewire) {
  Writer writer(Kind::rewire, rewire.key);
  writer.put(rewire.revision.number);
  writer.put_text(rewire.topology);
  return writer.take();
}

std::vector<std::byte> answer_statement(const PublicKey& key, PeerId requester, std::uint64_t requested) {
  Writer writer(Kind::answer, key);
  writer.put(requester.value);
  writer.put(requested);
  return writer.take();
}

bool is_authentic(const Identity& verifier, const wire::Member& member) {
  return verifier.id_of(member.key) == member.id &&
         verifier.verify(member.key, statement_of(member), member.signature);
}

bool is_authentic(const Identity& verifier, const wire::Rewire& rewire) {
  return verifier.id_of(rewire.key) == rewire.revision.author &&
         verifier.verify(rewire.key, statement_of(rewire), rewire.signature);
}

}  // namespace starling::gossip
