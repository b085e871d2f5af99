#include "transport/trust/identity.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/trust/private_file.h"

namespace starling::transport {
namespace {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;

constexpr std::string_view kFirstLine = "starling identity 1\n";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr const char* kNoRandomBytes = "the kernel has no random bytes for an identity";
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kFileBytes = kFirstLine.size() + 2 * kSecretBytes + 1;

using KeyBytes = std::array<std::uint8_t, 32>;

// y-coordinates, little endian, of the points whose order divides 8 (RFC 8032, section 5.1): with such a key
// one signature holds for every statement, and nobody needs a private key to make it. p = 2^255 - 19.
constexpr std::array<KeyBytes, 5> kSmallOrder = {{
    {},
    {1},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
     0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
     0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
}};

// Whether the key is a point of small order, or a second encoding of one: y is p or more. OpenSSL accepts
// both.
bool is_weak(const PublicKey& key) {
  KeyBytes y{};
  std::memcpy(y.data(), key.bytes.data(), y.size());
  y.back() &= 0x7f;  // without the sign of x
  const KeyBytes& largest = kSmallOrder[2];
  const bool is_canonical =
      !std::lexicographical_compare(largest.rbegin(), largest.rend(), y.rbegin(), y.rend());
  return !is_canonical || std::ranges::find(kSmallOrder, y) != kSmallOrder.end();
}

// The bytes of a private key or of a text with one, wiped at the end.
struct Secret {
  Secret() = default;
  ~Secret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  std::array<unsigned char, kSecretBytes> bytes{};
};
struct SecretText {
  explicit SecretText(std::string t) : text(std::move(t)) {}
  ~SecretText() { OPENSSL_cleanse(text.data(), text.size()); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  std::string text;
};

const unsigned char* raw(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
template <class Array>
unsigned char* raw(Array& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

Error unusable() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return Error{std::string("Ed25519 cannot be used on this machine: ") +
               (reason != nullptr ? reason : "OpenSSL fails")};
}

bool draw(Secret& secret) {
  return ::getrandom(secret.bytes.data(), kSecretBytes, 0) == static_cast<ssize_t>(kSecretBytes);
}

std::string to_text(const Secret& secret) {
  std::string text;
  text.reserve(kFileBytes);  // so that no shorter copy stays in memory
  text += kFirstLine;
  for (const unsigned char byte : secret.bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text += '\n';
}

// False: the text has another format.
bool parse(std::string_view text, Secret& secret) {
  if (!text.starts_with(kFirstLine)) return false;
  text.remove_prefix(kFirstLine.size());
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() != 2 * kSecretBytes) return false;
  for (std::size_t i = 0; i < kSecretBytes; ++i) {
    const std::size_t high = kHexDigits.find(text[2 * i]), low = kHexDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    secret.bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

// A new file with a new key, locked.
Result<PrivateFile> create(const std::string& path, Secret& secret, bool& exists) {
  if (!draw(secret)) return Error{kNoRandomBytes};
  auto file = PrivateFile::create(path, &exists);
  if (!file) return file;
  const SecretText content(to_text(secret));
  const Status written =
      file->lock() ? file->write(content.text) : Status(Error{"is locked by another process"});
  if (written) return file;
  ::unlink(path.c_str());
  return Error{path + " " + written.error().message};
}

}  // namespace

struct Ed25519Identity::Own {
  // `swarm` becomes part of all statements.
  static Result<std::shared_ptr<const Ed25519Identity>> make(const Secret& secret, const std::string& swarm,
                                                             std::optional<PrivateFile> file) {
    ERR_clear_error();
    auto own = std::make_unique<Own>();
    own->pair.reset(
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.bytes.data(), secret.bytes.size()));
    std::size_t size = own->key.bytes.size();
    if (!own->pair || EVP_PKEY_get_raw_public_key(own->pair.get(), raw(own->key.bytes), &size) != 1)
      return unusable();
    own->domain = "starling 2" + std::string(1, '\0') + swarm + '\0';
    own->file = std::move(file);
    return std::shared_ptr<const Ed25519Identity>(new Ed25519Identity(std::move(own)));
  }

  // What is signed.
  std::vector<std::byte> in_domain(Bytes statement) const {
    const Bytes prefix = std::as_bytes(std::span(domain));
    std::vector<std::byte> all;
    all.reserve(prefix.size() + statement.size());
    all.insert(all.end(), prefix.begin(), prefix.end());
    all.insert(all.end(), statement.begin(), statement.end());
    return all;
  }

  KeyPtr pair;
  PublicKey key;
  std::string domain;
  std::optional<PrivateFile> file;  // keeps the lock
};

Ed25519Identity::Ed25519Identity(std::unique_ptr<Own> own) : own_(std::move(own)) {}
Ed25519Identity::~Ed25519Identity() = default;

Result<std::shared_ptr<const Ed25519Identity>> Ed25519Identity::make_new(const std::string& swarm) {
  Secret secret;
  if (!draw(secret)) return Error{kNoRandomBytes};
  return Own::make(secret, swarm, std::nullopt);
}

Result<std::shared_ptr<const Ed25519Identity>> Ed25519Identity::read_or_create(const std::string& path,
                                                                               const std::string& swarm) {
  const auto refuse = [&](const std::string& why) { return Error{"the identity file " + path + " " + why}; };
  Secret secret;
  bool missing = false, exists = false;
  auto file = PrivateFile::open(path, &missing);
  if (missing) {
    auto created = create(path, secret, exists);
    if (created) return Own::make(secret, swarm, std::move(*created));
    if (!exists) return created.error();
    file = PrivateFile::open(path);  // another process has made it in the meantime
  }
  if (!file) return refuse(file.error().message);
  if (!file->lock()) {
    return Error{"another peer runs with the identity in " + path + "; each peer needs its own --state"};
  }
  auto text = file->read(kFileBytes + 1);
  if (!text) return refuse(text.error().message);
  const SecretText content(std::move(*text));
  if (content.text.empty()) return refuse("is empty; without the file the peer makes a new identity");
  if (!parse(content.text, secret)) {
    return refuse("does not hold an identity: its lines are 'starling identity 1' and 64 hexadecimal digits");
  }
  return Own::make(secret, swarm, std::move(*file));
}

const PublicKey& Ed25519Identity::key() const { return own_->key; }

Signature Ed25519Identity::sign(Bytes statement) const {
  const std::vector<std::byte> message = own_->in_domain(statement);
  const ContextPtr context(EVP_MD_CTX_new());
  Signature signature;
  std::size_t size = signature.bytes.size();
  // Fails only without memory.
  STARLING_CHECK(
      context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, own_->pair.get()) == 1 &&
      EVP_DigestSign(context.get(), raw(signature.bytes), &size, raw(Bytes(message)), message.size()) == 1 &&
      size == signature.bytes.size());
  return signature;
}

bool Ed25519Identity::verify(const PublicKey& key, Bytes statement, const Signature& signature) const {
  if (is_weak(key)) return false;
  const std::vector<std::byte> message = own_->in_domain(statement);
  ERR_clear_error();
  const KeyPtr theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(Bytes(key.bytes)), key.bytes.size()));
  const ContextPtr context(EVP_MD_CTX_new());
  const bool valid = theirs && context &&
                     EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, theirs.get()) == 1 &&
                     EVP_DigestVerify(context.get(), raw(Bytes(signature.bytes)), signature.bytes.size(),
                                      raw(Bytes(message)), message.size()) == 1;
  ERR_clear_error();
  return valid;
}

PeerId Ed25519Identity::id_of(const PublicKey& key) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  STARLING_CHECK(
      EVP_Digest(key.bytes.data(), key.bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1 &&
      size >= sizeof(std::uint64_t));
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < sizeof id; ++i) id = id << 8 | digest[i];
  return PeerId{id == 0 ? 1 : id};
}

}  // namespace starling::transport
