#include "transport/tls/gcm.h"

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include "base/check.h"

namespace starling::transport {
namespace {

// The functions for this processor; null if it lacks AES instructions.
IMB_MGR* manager() {
  static IMB_MGR* const kManager = []() -> IMB_MGR* {
    IMB_MGR* const made = alloc_mb_mgr(0);
    if (made == nullptr) return nullptr;
    IMB_ARCH found{};
    init_mb_mgr_auto(made, &found);
    return found >= IMB_ARCH_AVX2 ? made : nullptr;
  }();
  return kManager;
}

}  // namespace

struct Gcm::Key {
  gcm_key_data data;  // aligned by its type
};

bool Gcm::is_available() { return manager() != nullptr; }

Gcm::Gcm(std::span<const std::byte, kKeyBytes> key) : key_(std::make_unique<Key>()) {
  STARLING_CHECK(is_available());
  IMB_AES128_GCM_PRE(manager(), key.data(), &key_->data);
}

Gcm::~Gcm() { OPENSSL_cleanse(&key_->data, sizeof key_->data); }

void Gcm::seal(const Nonce& nonce, Bytes header, Bytes plain, std::byte last, std::byte* sealed) const {
  IMB_MGR* const mb = manager();
  gcm_context_data context;
  IMB_AES128_GCM_INIT(mb, &key_->data, &context, reinterpret_cast<const std::uint8_t*>(nonce.data()),
                      reinterpret_cast<const std::uint8_t*>(header.data()), header.size());
  auto* const to = reinterpret_cast<std::uint8_t*>(sealed);
  const auto* const from = reinterpret_cast<const std::uint8_t*>(plain.data());
  const auto last_byte = static_cast<std::uint8_t>(last);
  IMB_AES128_GCM_ENC_UPDATE(mb, &key_->data, &context, to, from, plain.size());
  IMB_AES128_GCM_ENC_UPDATE(mb, &key_->data, &context, to + plain.size(), &last_byte, 1);
  IMB_AES128_GCM_ENC_FINALIZE(mb, &key_->data, &context, to + plain.size() + 1, kTagBytes);
}

bool Gcm::open(const Nonce& nonce, Bytes header, Bytes sealed, MutableBytes plain, std::byte& last) const {
  IMB_MGR* const mb = manager();
  gcm_context_data context;
  IMB_AES128_GCM_INIT(mb, &key_->data, &context, reinterpret_cast<const std::uint8_t*>(nonce.data()),
                      reinterpret_cast<const std::uint8_t*>(header.data()), header.size());
  const auto* const from = reinterpret_cast<const std::uint8_t*>(sealed.data());
  auto* const to = reinterpret_cast<std::uint8_t*>(plain.data());
  IMB_AES128_GCM_DEC_UPDATE(mb, &key_->data, &context, to, from, plain.size());
  IMB_AES128_GCM_DEC_UPDATE(mb, &key_->data, &context, reinterpret_cast<std::uint8_t*>(&last),
                            from + plain.size(), 1);
  std::array<std::uint8_t, kTagBytes> tag{};
  IMB_AES128_GCM_DEC_FINALIZE(mb, &key_->data, &context, tag.data(), tag.size());
  return CRYPTO_memcmp(tag.data(), from + plain.size() + 1, tag.size()) == 0;
}

}  // namespace starling::transport
