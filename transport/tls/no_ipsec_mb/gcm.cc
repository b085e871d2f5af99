#include "transport/tls/gcm.h"
#include "base/check.h"

namespace starling::transport {

struct Gcm::Key {};

bool Gcm::is_available() { return false; }
Gcm::Gcm(std::span<const std::byte, kKeyBytes>) { STARLING_CHECK(is_available()); }
Gcm::~Gcm() = default;
void Gcm::seal(const Nonce&, Bytes, Bytes, std::byte, std::byte*) const {}
bool Gcm::open(const Nonce&, Bytes, Bytes, MutableBytes, std::byte&) const { return false; }

}  // namespace starling::transport
