// The grammar of topology names: a family, and its parameters behind a colon: "ring",
// "small-world:k=4,p=0.1". A Name knows what was written; a family takes its parameters from it by key, and
// whatever nobody took is an Error.
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
  // Splits the text. A missing family, key or '=' and a key given twice are Errors.
  static Result<Name> parse(std::string_view text);

  const std::string& text() const { return text_; }  // as it was written
  const std::string& family() const { return family_; }
  bool has(std::string_view key) const { return parameters_.count(std::string(key)) > 0; }

  // The parameter's value, or `otherwise` where it was not given; an Error where it is no number from `least`
  // to `most`. Each marks the key as known.
  Result<std::uint64_t> whole(std::string_view key, std::uint64_t otherwise, std::uint64_t least,
                              std::uint64_t most);
  Result<double> real(std::string_view key, double otherwise, double least, double most);

  // An Error that names a key that no call above asked for, and lists those that were.
  Status finish() const;

 private:
  std::string text_, family_;
  std::map<std::string, std::string> parameters_;
  std::map<std::string, bool> known_;
};

}  // namespace starling::topologies
