#include "transport/trust/discovery_tag.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstddef>

#include "base/check.h"

namespace starling::transport {

std::string discovery_tag(const SwarmKey& key, const std::string& swarm) {
  constexpr std::size_t kTagBytes = 16;
  constexpr char kDigits[] = "0123456789abcdef";
  const std::string text = std::string("starling discovery") + '\0' + swarm;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  const auto* made =
      HMAC(EVP_sha256(), key.bytes.data(), static_cast<int>(key.bytes.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &bytes);
  STARLING_CHECK(made != nullptr && bytes >= kTagBytes);
  std::string tag;
  for (std::size_t i = 0; i < kTagBytes; ++i) {
    tag += kDigits[digest[i] >> 4];
    tag += kDigits[digest[i] & 15];
  }
  return tag;
}

}  // namespace starling::transport
