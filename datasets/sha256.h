// SHA-256 (FIPS 180-4), which identifies published files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

struct evp_md_ctx_st;  // OpenSSL's

namespace starling::datasets {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  std::string hex();  // of all added bytes: 64 lower-case digits. May be called once.

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// The digest of a file's content.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace starling::datasets
