// SHA-256 (FIPS 180-4), by which published files are known.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::datasets {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string hex();  // of all that was added: 64 lower-case digits; once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of a file's content, as it lies there.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace starling::datasets
