#include "transport/tls/tls.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace starling::transport {
namespace {

template <auto free>
struct FreedBy {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};

constexpr std::size_t kPskBytes = 32;
constexpr std::size_t kBindingBytes = 32;
constexpr std::size_t kIdentityBytes = 16;
// Both with SHA-256, the hash that the key is for.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kPskCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::uint16_t kAesSuite = 0x1301, kChaChaSuite = 0x1303;
// Contents of records (RFC 8446, 6.1 and 4.6.3).
constexpr std::array kCloseNotify = {std::byte{1}, std::byte{0}};
constexpr std::array kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};
constexpr std::array kKeyUpdateRequest = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                                          std::byte{1}};
constexpr int kAlerts = 1000;  // where OpenSSL's reasons for a remote's alerts begin

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "OpenSSL error " + std::to_string(code);
}

// HKDF with SHA-256 (RFC 5869); `what` and the swarm's name are the purpose of the derived key.
bool derive(const SwarmKey& key, std::string_view what, const std::string& swarm,
            std::span<unsigned char> out) {
  const std::unique_ptr<EVP_KDF, FreedBy<EVP_KDF_free>> hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  if (!hkdf) return false;
  const std::unique_ptr<EVP_KDF_CTX, FreedBy<EVP_KDF_CTX_free>> context(EVP_KDF_CTX_new(hkdf.get()));
  if (!context) return false;
  std::string digest = "SHA256";
  std::string salt = "starling swarm key 1";
  std::string purpose = std::string(what) + '\0' + swarm;
  auto secret = key.bytes;
  const std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, purpose.data(), purpose.size()),
      OSSL_PARAM_construct_end()};
  const bool derived = EVP_KDF_derive(context.get(), out.data(), out.size(), parameters.data()) == 1;
  OPENSSL_cleanse(secret.data(), secret.size());
  return derived;
}

// What is derived from one key of the swarm.
struct Credential {
  Credential() = default;
  ~Credential() { OPENSSL_cleanse(psk.data(), psk.size()); }
  Credential(const Credential&) = delete;
  Credential& operator=(const Credential&) = delete;

  bool is_named(const unsigned char* name, std::size_t bytes) const {
    return std::ranges::equal(identity, std::span(name, bytes));
  }

  // A new session for the callbacks: TLS 1.3's form of a pre-shared key. Each connection gets its own,
  // because it may write to it.
  SSL_SESSION* session(SSL* connection) const {
    SSL_SESSION* made = SSL_SESSION_new();
    if (made == nullptr) return nullptr;
    if (SSL_SESSION_set1_master_key(made, psk.data(), psk.size()) == 1 &&
        SSL_SESSION_set_cipher(made, SSL_CIPHER_find(connection, kPskCipher.data())) == 1 &&
        SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
      return made;
    SSL_SESSION_free(made);
    return nullptr;
  }

  std::array<unsigned char, kPskBytes> psk{};
  // Names the key to the remote. It is derived, too, so it reveals neither the key nor the swarm's name.
  std::array<unsigned char, kIdentityBytes> identity{};
};

}  // namespace

struct TlsContext::Own {
  using Credentials = std::vector<std::shared_ptr<const Credential>>;

  bool has(const Credential* credential) const {
    return std::ranges::any_of(credentials, [&](const auto& one) { return one.get() == credential; });
  }

  std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>> openssl;
  std::string swarm;
  Credentials credentials;  // a dialer uses the first one
  std::uint64_t records_per_key = 0;
};

struct TlsEngine::Own {
  Own() = default;
  ~Own() { forget_secrets(); }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  std::shared_ptr<const TlsContext> context;
  TlsRole role = TlsRole::dialer;
  std::unique_ptr<SSL, FreedBy<SSL_free>> ssl;  // until the handshake is complete
  std::optional<TlsSecret> client_secret, server_secret;
  Bytes in;
  TlsBuffer out;
  std::size_t handshake_bytes = 0;
  bool shaken = false;
  bool other_key = false;                        // the dialer named a key that this peer does not have
  std::shared_ptr<const Credential> credential;  // of the handshake
  std::vector<std::byte> binding;

  // After the handshake.
  std::optional<TlsRecords> sender, receiver;
  std::vector<std::byte> part;  // of a record whose rest has not arrived
  std::size_t part_bytes = 0;
  std::vector<std::byte> aside;  // the text of a record for which a reader had no room
  Bytes left;                    // the end of it, to be read next
  bool ended = false;
  bool finished = false;
  std::uint64_t records = 0;  // sealed under the present key
  std::optional<LinkError> failure;

  LinkError fail(LinkErrorKind kind, std::string sentence) {
    if (!failure) failure = LinkError{{std::move(sentence)}, kind};
    return *failure;
  }
  LinkError fail_handshake();
  LinkResult<bool> take_keys();
  void take_secret(std::string_view line);
  void forget_secrets();

  LinkResult<Bytes> next_record();
  LinkResult<std::size_t> open_record(Bytes record, MutableBytes into);
  LinkStatus take_key_update(Bytes content);
  void renew_sender();
  void seal(TlsRecords::Type type, Bytes text);

  // How OpenSSL reads `in` and writes `out`.
  static const BIO_METHOD* method();
};

// ---- the context ----

TlsContext::TlsContext(std::unique_ptr<Own> own) : own_(std::move(own)) {}
TlsContext::~TlsContext() = default;

Status TlsContext::set_keys(const SwarmKeys& keys) {
  Own::Credentials credentials;
  for (const SwarmKeys::Entry& entry : keys.entries) {
    auto made = std::make_shared<Credential>();
    if (!derive(entry.key, "tls 1.3 key", own_->swarm, made->psk) ||
        !derive(entry.key, "tls 1.3 identity", own_->swarm, made->identity))
      return Error{"TLS keys cannot be derived on this machine: " + openssl_error()};
    // A key that stays is the same object, by which its connections know it.
    const auto same = std::ranges::find_if(
        own_->credentials, [&](const auto& known) { return known->identity == made->identity; });
    credentials.push_back(same != own_->credentials.end() ? *same : std::move(made));
  }
  own_->credentials = std::move(credentials);
  return Done{};
}

Result<std::shared_ptr<TlsContext>> TlsContext::make(const SwarmKeys& keys, const std::string& swarm,
                                                     std::uint64_t records_per_key) {
  STARLING_CHECK(records_per_key > 0);
  ERR_clear_error();
  const std::shared_ptr<TlsContext> context(new TlsContext(std::make_unique<Own>()));
  Own& own = *context->own_;
  own.swarm = swarm;
  own.records_per_key = records_per_key;
  own.openssl.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* ssl = own.openssl.get();
  const bool made = ssl != nullptr && SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(ssl, kCiphers) == 1 &&
                    SSL_CTX_set1_groups_list(ssl, "X25519:P-256") == 1 &&
                    SSL_CTX_set_num_tickets(ssl, 0) == 1;
  if (!made) return Error{"TLS 1.3 cannot be set up on this machine: " + openssl_error()};
  if (Status set = context->set_keys(keys); !set) return set.error();
  // Every connection proves the key with a fresh Diffie-Hellman exchange: no session is resumed, no early
  // data is accepted, and no certificate is trusted.
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
  SSL_CTX_clear_options(ssl, SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_cert_verify_callback(
      ssl, [](X509_STORE_CTX*, void*) { return 0; }, nullptr);
  SSL_CTX_set_keylog_callback(ssl, [](const SSL* connection, const char* line) {
    static_cast<TlsEngine::Own*>(SSL_get_app_data(connection))->take_secret(line);
  });
  SSL_CTX_set_psk_use_session_callback(ssl, [](SSL* connection, const EVP_MD*, const unsigned char** identity,
                                               std::size_t* identity_bytes, SSL_SESSION** session) {
    TlsEngine::Own& engine = *static_cast<TlsEngine::Own*>(SSL_get_app_data(connection));
    engine.credential = engine.context->own_->credentials.front();
    *session = engine.credential->session(connection);
    *identity = engine.credential->identity.data();
    *identity_bytes = engine.credential->identity.size();
    return *session != nullptr ? 1 : 0;
  });
  SSL_CTX_set_psk_find_session_callback(ssl, [](SSL* connection, const unsigned char* identity,
                                                std::size_t identity_bytes, SSL_SESSION** session) {
    TlsEngine::Own& engine = *static_cast<TlsEngine::Own*>(SSL_get_app_data(connection));
    const auto& credentials = engine.context->own_->credentials;
    const auto named = std::ranges::find_if(
        credentials, [&](const auto& one) { return one->is_named(identity, identity_bytes); });
    engine.other_key = named == credentials.end();
    *session = nullptr;
    if (engine.other_key) return 1;
    engine.credential = *named;
    *session = engine.credential->session(connection);
    return *session != nullptr ? 1 : 0;
  });
  return context;
}

// ---- one connection ----

const BIO_METHOD* TlsEngine::Own::method() {
  static const std::unique_ptr<BIO_METHOD, FreedBy<BIO_meth_free>> kMethod = [] {
    std::unique_ptr<BIO_METHOD, FreedBy<BIO_meth_free>> made(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "starling"));
    STARLING_CHECK(made != nullptr);
    BIO_meth_set_read(made.get(), [](BIO* bio, char* into, int size) {
      BIO_clear_retry_flags(bio);
      Own& own = *static_cast<Own*>(BIO_get_data(bio));
      const std::size_t n = std::min(own.in.size(), static_cast<std::size_t>(std::max(size, 0)));
      if (!own.shaken) own.handshake_bytes += n;
      if (own.handshake_bytes > kHandshakeBytesMax) return -1;
      if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
      }
      std::memcpy(into, own.in.data(), n);
      own.in = own.in.subspan(n);
      return static_cast<int>(n);
    });
    BIO_meth_set_write(made.get(), [](BIO* bio, const char* from, int size) {
      BIO_clear_retry_flags(bio);
      Own& own = *static_cast<Own*>(BIO_get_data(bio));
      const auto* bytes = reinterpret_cast<const std::byte*>(from);
      own.out.insert(own.out.end(), bytes, bytes + size);
      return size;
    });
    BIO_meth_set_ctrl(made.get(),
                      [](BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1L : 0L; });
    return made;
  }();
  return kMethod.get();
}

TlsEngine::TlsEngine(std::shared_ptr<const TlsContext> context, TlsRole role)
    : own_(std::make_unique<Own>()) {
  own_->context = std::move(context);
  own_->role = role;
  own_->ssl.reset(SSL_new(own_->context->own_->openssl.get()));
  BIO* bio = own_->ssl ? BIO_new(Own::method()) : nullptr;
  if (bio == nullptr) {
    own_->failure = LinkError{{"OpenSSL has no memory for another connection"}, LinkErrorKind::broken};
    return;
  }
  BIO_set_data(bio, own_.get());
  BIO_set_init(bio, 1);
  SSL* ssl = own_->ssl.get();
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, own_.get());
  if (role == TlsRole::dialer) {
    SSL_set_connect_state(ssl);
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(ssl);
  }
}

TlsEngine::~TlsEngine() = default;

void TlsEngine::feed(Bytes arrived) {
  STARLING_CHECK(own_->in.empty());
  own_->in = arrived;
}

TlsBuffer& TlsEngine::outgoing() { return own_->out; }

LinkResult<bool> TlsEngine::shake() {
  if (own_->failure) return *own_->failure;
  if (own_->shaken) return true;
  SSL* ssl = own_->ssl.get();
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl);
  if (result != 1) {
    if (SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ) return false;
    return own_->fail_handshake();
  }
  // A second check: OpenSSL should not complete a handshake without the key.
  if (SSL_session_reused(ssl) != 1 || SSL_version(ssl) != TLS1_3_VERSION)
    return own_->fail(LinkErrorKind::wrong_key, "does not use the swarm's key");
  return own_->take_keys();
}

// Takes over the connection from OpenSSL: its secrets, and the sending and receiving of records.
LinkResult<bool> TlsEngine::Own::take_keys() {
  const SSL_CIPHER* suite = SSL_get_current_cipher(ssl.get());
  const std::uint16_t number = SSL_CIPHER_get_protocol_id(suite);
  const bool ours = client_secret && server_secret && SSL_has_pending(ssl.get()) == 0 &&
                    (number == kAesSuite || number == kChaChaSuite);
  constexpr std::string_view kLabel = "EXPORTER-starling identity";
  binding.resize(kBindingBytes);
  if (!ours || SSL_export_keying_material(ssl.get(), reinterpret_cast<unsigned char*>(binding.data()),
                                          binding.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1)
    return fail(LinkErrorKind::broken, "OpenSSL did not give the keys of a TLS connection");
  const TlsCipher cipher = number == kAesSuite ? TlsCipher::aes_128_gcm : TlsCipher::chacha20_poly1305;
  const bool dialer = role == TlsRole::dialer;
  sender.emplace(cipher, dialer ? *client_secret : *server_secret);
  receiver.emplace(cipher, dialer ? *server_secret : *client_secret);
  forget_secrets();
  ssl.reset();
  return shaken = true;
}

// A line of OpenSSL's key log: the name of a secret, the client's random bytes, and the secret.
void TlsEngine::Own::take_secret(std::string_view line) {
  auto* secret = line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")   ? &client_secret
                 : line.starts_with("SERVER_TRAFFIC_SECRET_0 ") ? &server_secret
                                                                : nullptr;
  TlsSecret bytes;
  if (secret == nullptr || line.size() < 2 * bytes.size()) return;
  line.remove_prefix(line.size() - 2 * bytes.size());
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(digit(line[2 * i]) << 4 | digit(line[2 * i + 1]));
  *secret = bytes;
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

void TlsEngine::Own::forget_secrets() {
  for (auto* secret : {&client_secret, &server_secret}) {
    if (*secret) OPENSSL_cleanse((*secret)->data(), (*secret)->size());
    secret->reset();
  }
}

// The error for a failed handshake, from OpenSSL's reason.
LinkError TlsEngine::Own::fail_handshake() {
  if (handshake_bytes > kHandshakeBytesMax)
    return fail(LinkErrorKind::oversize,
                "a TLS handshake of more than " + std::to_string(kHandshakeBytesMax) + " bytes");
  constexpr const char* kOtherKey =
      "has another key than this peer, or belongs to another swarm: the files of --key must hold the same "
      "key, and --swarm must "
      "be the same";
  bool keyless = other_key;
  bool alerted = false;
  const std::string why = openssl_error();
  while (const unsigned long code = ERR_get_error()) {
    if (ERR_GET_LIB(code) != ERR_LIB_SSL) continue;
    switch (const int reason = ERR_GET_REASON(code)) {
      case SSL_R_BINDER_DOES_NOT_VERIFY:           // the name of this key, but another key
      case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:  // another key, so a certificate would be needed
      case SSL_R_NO_SHARED_CIPHER:
      case SSL_R_UNSUPPORTED_PROTOCOL:
      case SSL_R_CERTIFICATE_VERIFY_FAILED:
        keyless = true;
        break;
      default:
        alerted = alerted || reason > kAlerts;
    }
  }
  if (keyless || alerted) return fail(LinkErrorKind::wrong_key, kOtherKey);
  return fail(LinkErrorKind::malformed, "the bytes received are not a TLS handshake (" + why + ")");
}

bool TlsEngine::is_outdated() const {
  return own_->shaken && !own_->context->own_->has(own_->credential.get());
}

std::vector<std::byte> TlsEngine::channel_binding() const {
  STARLING_CHECK(own_->shaken);
  return own_->binding;
}

LinkResult<std::size_t> TlsEngine::open(MutableBytes into) {
  if (own_->failure) return *own_->failure;
  while (!own_->ended && !into.empty()) {
    if (!own_->left.empty()) {
      const std::size_t n = std::min(own_->left.size(), into.size());
      std::copy_n(own_->left.begin(), n, into.begin());
      own_->left = own_->left.subspan(n);
      return n;
    }
    const auto record = own_->next_record();
    if (!record.ok()) return record.error();
    if (record->empty()) break;
    const auto opened = own_->open_record(*record, into);
    if (!opened.ok()) return opened.error();
    if (*opened > 0) return *opened;
  }
  return std::size_t{0};
}

// The next whole record that has arrived; empty: more bytes are needed.
LinkResult<Bytes> TlsEngine::Own::next_record() {
  constexpr std::size_t kHeader = TlsRecords::kHeaderBytes;
  const auto missing = [&](std::size_t bytes) {  // moves up to so many bytes behind the part that came before
    const std::size_t n = std::min(bytes, in.size());
    std::copy_n(in.begin(), n, part.begin() + static_cast<std::ptrdiff_t>(part_bytes));
    part_bytes += n;
    in = in.subspan(n);
    return n < bytes;
  };
  const bool whole_header = part_bytes == 0 && in.size() >= kHeader;
  if (!whole_header) {
    if (part.empty()) part.resize(kHeader + TlsRecords::kSealedBytesMax);
    if (part_bytes < kHeader && missing(kHeader - part_bytes)) return Bytes{};
  }
  const std::byte* header = whole_header ? in.data() : part.data();
  const std::size_t sealed =
      std::to_integer<std::size_t>(header[3]) << 8 | std::to_integer<std::size_t>(header[4]);
  const bool valid = header[0] == std::byte{23} && header[1] == std::byte{3} && header[2] == std::byte{3} &&
                     sealed + kHeader >= TlsRecords::kExtraBytes && sealed <= TlsRecords::kSealedBytesMax;
  if (!valid) return fail(LinkErrorKind::malformed, "the bytes received are not records of TLS 1.3");
  const std::size_t bytes = kHeader + sealed;
  if (whole_header && in.size() >= bytes) {
    const Bytes record = in.first(bytes);
    in = in.subspan(bytes);
    return record;
  }
  if (part.empty()) part.resize(kHeader + TlsRecords::kSealedBytesMax);
  if (missing(bytes - part_bytes)) return Bytes{};
  part_bytes = 0;
  return Bytes(part).first(bytes);
}

// Returns the bytes of data in `into`. Data that it has no room for becomes `left`; 0 also for other records.
LinkResult<std::size_t> TlsEngine::Own::open_record(Bytes record, MutableBytes into) {
  std::size_t bytes = record.size() - TlsRecords::kExtraBytes;
  const bool fits = bytes <= into.size();
  if (!fits && aside.empty()) aside.resize(TlsRecords::kSealedBytesMax);
  const MutableBytes text = (fits ? into : MutableBytes(aside)).first(bytes);
  std::byte type{};
  if (!receiver->open(record, text, type))
    return fail(LinkErrorKind::bad_checksum, "a TLS record was changed in transit");
  while (type == std::byte{0} && bytes > 0) type = text[--bytes];  // padding
  if (bytes > kRecordBytes) return fail(LinkErrorKind::malformed, "a TLS record is too long");
  using Type = TlsRecords::Type;
  const Bytes content = Bytes(text).first(bytes);
  switch (static_cast<Type>(type)) {
    case Type::data:
      if (!fits) left = content;
      return fits ? bytes : 0;
    case Type::alert:
      if (!std::ranges::equal(content, kCloseNotify))
        return fail(LinkErrorKind::malformed, "the remote sent a TLS alert");
      ended = true;
      return std::size_t{0};
    case Type::handshake:
      if (const LinkStatus taken = take_key_update(content); !taken.ok()) return taken.error();
      return std::size_t{0};
  }
  return fail(LinkErrorKind::malformed, "a TLS record has an unknown type");
}

// The only message after the handshake: the remote's next record has new keys.
LinkStatus TlsEngine::Own::take_key_update(Bytes content) {
  const bool plain = std::ranges::equal(content, kKeyUpdate);
  if (!plain && !std::ranges::equal(content, kKeyUpdateRequest))
    return fail(LinkErrorKind::malformed, "the remote sent a TLS message that is not a renewal of keys");
  receiver->renew();
  if (!plain) renew_sender();
  return Done{};
}

void TlsEngine::Own::renew_sender() {
  seal(TlsRecords::Type::handshake, kKeyUpdate);
  sender->renew();
  records = 0;
}

void TlsEngine::Own::seal(TlsRecords::Type type, Bytes text) {
  const std::size_t at = out.size();
  out.resize(at + text.size() + TlsRecords::kExtraBytes);
  sender->seal(type, text, out.data() + at);
}

bool TlsEngine::ended() const { return own_->ended; }

LinkStatus TlsEngine::seal(Bytes plain) {
  STARLING_CHECK(!plain.empty() && plain.size() <= kRecordBytes && own_->shaken);
  if (own_->failure) return *own_->failure;
  if (own_->records >= own_->context->own_->records_per_key) own_->renew_sender();
  own_->seal(TlsRecords::Type::data, plain);
  ++own_->records;
  return Done{};
}

void TlsEngine::finish() {
  if (own_->failure || !own_->shaken || std::exchange(own_->finished, true)) return;
  own_->seal(TlsRecords::Type::alert, kCloseNotify);
}

}  // namespace starling::transport
