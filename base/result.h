// Errors as values. Any input from outside (a peer, a file, a flag, the environment) can be invalid, so a
// function that reads it returns a Result. Its Error is one sentence that says what is wrong, where, and what
// is expected. Errors of the program itself are assertions (base/check.h), never Errors.
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

// `E` is Error, or a class derived from it that adds the kind of the error, to count rejections by reason and
// to act on them. It converts to a plain Error.
template <class T, class E = Error>
class [[nodiscard]] Result {
  static_assert(std::is_base_of_v<Error, E>, "E must derive from Error, which has the message");

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

// For functions whose success has no value.
struct Done {};
using Status = Result<Done>;

}  // namespace starling
