#pragma once
#include "gossip/membership.h"
namespace starling::lab {
template <class Entry>
const wire::Member& member_of(const Entry& entry) {
  if constexpr (requires { entry.member; }) {
    return entry.member;
  } else {
    return entry.second;
  }
}
template <class M>
std::size_t queued(const M& m) {
  if constexpr (requires { m.queued(); }) return m.queued();
  return 0;
}
template <class M>
std::vector<std::uint64_t> digest(const M& m) {
  if constexpr (requires { m.digest(); }) return m.digest();
  return {};
}
}  // namespace starling::lab
