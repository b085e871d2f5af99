// Classes of characters by Unicode's general category and its property White_Space.
#pragma once

#include <cstdint>

namespace starling::datasets::text {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

CharacterClass class_of(char32_t character);

}  // namespace starling::datasets::text
