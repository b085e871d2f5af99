// Errors as values. Whatever comes from outside (a peer, a file, a flag, the environment) can be wrong, and a
// function that meets it returns a Result; its Error is one clear sentence that says what is wrong, where,
// and what would be right. Mistakes of our own code are assertions (base/check.h), never Errors.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace starling {

struct [[nodiscard]] Error {
  std::string message;
};

// `E` is an Error, or one that also says which kind it is, so that refusals can be counted by reason and
// acted on; such a one turns into a plain Error by itself.
template <class T, class E = Error>
class [[nodiscard]] Result {
  static_assert(std::is_base_of_v<Error, E>, "the error carries a sentence");

 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const E& error() const {
    STARLING_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  T& get() {
    STARLING_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, E> state_;
};

// The result of something that yields nothing but success.
struct Done {};
using Status = Result<Done>;

}  // namespace starling
