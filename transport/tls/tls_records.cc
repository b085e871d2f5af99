#include "transport/tls/tls_records.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "transport/tls/gcm.h"

namespace starling::transport {
namespace {

constexpr std::size_t kNonceBytes = 12, kTagBytes = 16, kKeyBytesMax = 32;
using Nonce = std::array<std::byte, kNonceBytes>;

template <auto free>
struct Released {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};

unsigned char* chars(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* chars(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// HKDF-Expand-Label (RFC 8446, 7.1) without a context. Fails only without memory.
void expand_label(const TlsSecret& secret, std::string_view label, std::span<std::byte> out) {
  std::string info = {0, static_cast<char>(out.size()), static_cast<char>(6 + label.size())};
  info += "tls13 ";
  info += label;
  info += '\0';
  const std::unique_ptr<EVP_KDF, Released<EVP_KDF_free>> hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  STARLING_CHECK(hkdf != nullptr);
  const std::unique_ptr<EVP_KDF_CTX, Released<EVP_KDF_CTX_free>> context(EVP_KDF_CTX_new(hkdf.get()));
  STARLING_CHECK(context != nullptr);
  std::string digest = "SHA256";
  TlsSecret key = secret;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  const bool derived = EVP_KDF_derive(context.get(), chars(out.data()), out.size(), parameters.data()) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  STARLING_CHECK(derived);
}

// The AEAD of OpenSSL.
class OpenSslAead {
 public:
  OpenSslAead(const EVP_CIPHER* cipher, const std::byte* key) : context_(EVP_CIPHER_CTX_new()) {
    STARLING_CHECK(context_ &&
                   EVP_CipherInit_ex(context_.get(), cipher, nullptr, chars(key), nullptr, 1) == 1);
  }

  void seal(const Nonce& nonce, Bytes header, Bytes text, std::byte type, std::byte* sealed) {
    STARLING_CHECK(
        begin(nonce, header, 1) && pass(text.data(), text.size(), sealed) &&
        pass(&type, 1, sealed + text.size()) && finish() &&
        EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, sealed + text.size() + 1) == 1);
  }

  bool open(const Nonce& nonce, Bytes header, Bytes sealed, MutableBytes text, std::byte& type) {
    std::array<std::byte, kTagBytes> tag;
    std::copy_n(sealed.end() - kTagBytes, kTagBytes, tag.begin());
    return begin(nonce, header, 0) && pass(sealed.data(), text.size(), text.data()) &&
           pass(sealed.data() + text.size(), 1, &type) &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) == 1 && finish();
  }

 private:
  bool begin(const Nonce& nonce, Bytes header, int seals) {
    return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, chars(nonce.data()), seals) == 1 &&
           pass(header.data(), header.size(), nullptr);
  }
  bool pass(const std::byte* from, std::size_t bytes, std::byte* to) {
    int written = 0;
    return bytes == 0 ||
           EVP_CipherUpdate(context_.get(), chars(to), &written, chars(from), static_cast<int>(bytes)) == 1;
  }
  bool finish() {
    int written = 0;
    std::array<unsigned char, kTagBytes> nothing;
    return EVP_CipherFinal_ex(context_.get(), nothing.data(), &written) == 1;
  }

  std::unique_ptr<EVP_CIPHER_CTX, Released<EVP_CIPHER_CTX_free>> context_;
};

}  // namespace

struct TlsRecords::Own {
  Own(TlsCipher which, const TlsSecret& traffic_secret, bool with_wide)
      : cipher(which),
        wide(with_wide && which == TlsCipher::aes_128_gcm && Gcm::is_available()),
        secret(traffic_secret) {
    set_keys();
  }
  ~Own() {
    OPENSSL_cleanse(secret.data(), secret.size());
    OPENSSL_cleanse(iv.data(), iv.size());
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  void set_keys() {
    std::array<std::byte, kKeyBytesMax> space{};
    const bool aes = cipher == TlsCipher::aes_128_gcm;
    const std::span key = std::span(space).first(aes ? Gcm::kKeyBytes : kKeyBytesMax);
    expand_label(secret, "key", key);
    expand_label(secret, "iv", iv);
    if (wide)
      gcm.emplace(std::span(space).first<Gcm::kKeyBytes>());
    else
      openssl.emplace(aes ? EVP_aes_128_gcm() : EVP_chacha20_poly1305(), key.data());
    OPENSSL_cleanse(space.data(), space.size());
    sequence = 0;
  }

  Nonce next_nonce() {
    Nonce nonce = iv;
    for (std::size_t i = 0; i < sizeof sequence; ++i)
      nonce[kNonceBytes - 1 - i] ^= static_cast<std::byte>(sequence >> 8 * i & 0xff);
    ++sequence;
    return nonce;
  }

  TlsCipher cipher;
  bool wide;
  TlsSecret secret;
  Nonce iv{};
  std::uint64_t sequence = 0;  // of the next record
  // One of the two.
  std::optional<Gcm> gcm;
  std::optional<OpenSslAead> openssl;
};

TlsRecords::TlsRecords(TlsCipher cipher, const TlsSecret& traffic_secret, bool wide)
    : own_(std::make_unique<Own>(cipher, traffic_secret, wide)) {}
TlsRecords::~TlsRecords() = default;

void TlsRecords::seal(Type type, Bytes text, std::byte* record) {
  STARLING_CHECK(text.size() <= kTextBytesMax);
  const std::size_t sealed = text.size() + kExtraBytes - kHeaderBytes;
  const std::array<std::byte, kHeaderBytes> header = {static_cast<std::byte>(Type::data), std::byte{3},
                                                      std::byte{3}, static_cast<std::byte>(sealed >> 8),
                                                      static_cast<std::byte>(sealed & 0xff)};
  std::copy(header.begin(), header.end(), record);
  const Nonce nonce = own_->next_nonce();
  const auto last = static_cast<std::byte>(type);
  if (own_->gcm)
    own_->gcm->seal(nonce, header, text, last, record + kHeaderBytes);
  else
    own_->openssl->seal(nonce, header, text, last, record + kHeaderBytes);
}

bool TlsRecords::open(Bytes record, MutableBytes text, std::byte& type) {
  STARLING_CHECK(record.size() == text.size() + kExtraBytes);
  const Bytes header = record.first(kHeaderBytes), sealed = record.subspan(kHeaderBytes);
  const Nonce nonce = own_->next_nonce();
  if (own_->gcm) return own_->gcm->open(nonce, header, sealed, text, type);
  return own_->openssl->open(nonce, header, sealed, text, type);
}

void TlsRecords::renew() {
  TlsSecret next;
  expand_label(own_->secret, "traffic upd", next);
  own_->secret = next;
  OPENSSL_cleanse(next.data(), next.size());
  own_->set_keys();
}

}  // namespace starling::transport
