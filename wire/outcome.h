// A result whose error says, besides its sentence for people, which kind it is, so that refusals can be
// counted by reason and acted on. Frames and links use it; everything else uses Result. Reads like Result in
// every other way, and an error of it turns into a plain Error by itself.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/result.h"

namespace starling::wire {

template <class T, class E>
class [[nodiscard]] Outcome {
  static_assert(std::is_base_of_v<Error, E>, "the error carries a sentence");

 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Outcome*>(this)->get(); }
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

}  // namespace starling::wire
