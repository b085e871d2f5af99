// The grammar of topology names: a family and, after a colon, its parameters, as in "small-world:k=4,p=0.1".
// A family reads its parameters from a Name by key; a parameter that it does not read is an Error.
//
//   name = family [":" key "=" value {"," key "=" value}]
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::topologies {

class Name {
 public:
  // Splits the text. An Error for a missing key, '=' or value, and for a key given twice.
  static Result<Name> parse(std::string_view text);

  const std::string& text() const { return text_; }  // as it was written
  const std::string& family() const { return family_; }
  bool has(std::string_view key) const { return parameters_.count(std::string(key)) > 0; }

  // The value of the parameter, or `otherwise` if it was not given; an Error if it is not a number from
  // `least` to `most`. Both functions mark the key as known.
  Result<std::uint64_t> whole(std::string_view key, std::uint64_t otherwise, std::uint64_t least,
                              std::uint64_t most);
  Result<double> real(std::string_view key, double otherwise, double least, double most);

  // An Error if a parameter was not read by a call above; it lists the known keys.
  Status finish() const;

 private:
  std::string text_, family_;
  std::map<std::string, std::string> parameters_;
  std::map<std::string, bool> known_;
};

}  // namespace starling::topologies
