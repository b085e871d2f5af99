#include "datasets/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace starling::datasets {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  STARLING_CHECK(state_->context != nullptr &&
                 EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  STARLING_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  STARLING_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

Result<std::string> sha256_of_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return Error{"'" + path + "' cannot be read: " + std::strerror(errno)};
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 18);
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0;)
    hash.add(std::span(buffer.data(), n));
  if (std::ferror(file.get()) != 0) return Error{"'" + path + "' cannot be read: " + std::strerror(errno)};
  return hash.hex();
}

}  // namespace starling::datasets
