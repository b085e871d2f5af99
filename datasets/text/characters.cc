#include "datasets/text/characters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>

#include "base/text.h"

namespace starling::datasets::text {
namespace {

constexpr char32_t kCharacterMax = 0x10ffff;

bool is_surrogate(char32_t character) { return character >= 0xd800 && character <= 0xdfff; }

std::string hexadecimal(char32_t character) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%x", static_cast<unsigned>(character));
  return digits.data();
}

class CharacterTokenizer final : public Tokenizer {
 public:
  // REQUIRES: 1 to kTokensMax ascending characters.
  explicit CharacterTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {
    ascii_.fill(kNone);
    for (std::size_t i = 0; i < characters_.size(); ++i) {
      if (characters_[i] < ascii_.size()) ascii_[characters_[i]] = static_cast<std::int32_t>(i);
      begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
      append_character(characters_[i], bytes_);
    }
    begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }

  std::string_view kind() const override { return "characters"; }
  std::size_t size() const override { return characters_.size(); }

  Result<std::vector<std::uint16_t>> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens;
    tokens.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const auto character = next_character(text, at);
      if (!character) return Error{"byte " + std::to_string(begin) + " is not part of UTF-8"};
      const std::int32_t token = find(*character);
      if (token == kNone)
        return Error{"the character " + show_character(*character) + " at byte " + std::to_string(begin) +
                     " is none of the " + std::to_string(size()) + " characters of the vocabulary"};
      tokens.push_back(static_cast<std::uint16_t>(token));
    }
    return tokens;
  }

  std::string_view decode_one(std::uint16_t token) const override {
    STARLING_CHECK(token < size());
    return std::string_view(bytes_).substr(begins_[token], begins_[token + 1U] - begins_[token]);
  }

  std::string text() const override {
    std::string ranges;
    for (std::size_t i = 0; i < characters_.size();) {
      std::size_t last = i;
      while (last + 1 < characters_.size() && characters_[last + 1] == characters_[last] + 1) ++last;
      ranges += " " + hexadecimal(characters_[i]);
      if (last > i) ranges += "-" + hexadecimal(characters_[last]);
      i = last + 1;
    }
    return "starling tokenizer 1\ncharacters" + ranges + "\n";
  }

 private:
  static constexpr std::int32_t kNone = -1;

  std::int32_t find(char32_t character) const {
    if (character < ascii_.size()) return ascii_[character];
    const auto at = std::ranges::lower_bound(characters_, character);
    const bool found = at != characters_.end() && *at == character;
    return found ? static_cast<std::int32_t>(at - characters_.begin()) : kNone;
  }

  std::vector<char32_t> characters_;
  std::array<std::int32_t, 128> ascii_{};
  std::string bytes_;                  // of all tokens
  std::vector<std::uint32_t> begins_;  // of each token in bytes_, and the end
};

// One number of a range, "5a"; nullopt unless it is written as text() writes it.
std::optional<char32_t> parse_character(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || value > kCharacterMax || is_surrogate(value)) return std::nullopt;
  return hexadecimal(value) == digits ? std::optional<char32_t>(value) : std::nullopt;
}

}  // namespace

void append_character(char32_t character, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  const auto rest = [&](int shift) { put(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    rest(0);
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    rest(6), rest(0);
  } else {
    put(0xf0 | character >> 18);
    rest(12), rest(6), rest(0);
  }
}

std::string show_character(char32_t character) {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "U+%04X", static_cast<unsigned>(character));
  std::string shown;
  append_character(character, shown);
  if (!is_printable(shown)) return number.data();
  return "'" + shown + "' (" + number.data() + ")";
}

Result<AnyTokenizer> make_characters(std::span<const std::string_view> texts) {
  std::vector<bool> occurs(kCharacterMax + 1);
  for (const std::string_view text : texts) {
    for (std::size_t at = 0; at < text.size();) {
      const auto character = next_character(text, at);
      STARLING_CHECK(character.has_value());
      occurs[*character] = true;
    }
  }
  std::vector<char32_t> characters;
  for (char32_t c = 0; c <= kCharacterMax; ++c)
    if (occurs[c]) characters.push_back(c);
  if (characters.empty()) return Error{"the text is empty, so it has no characters for a vocabulary"};
  if (characters.size() > kTokensMax)
    return Error{"the text has " + std::to_string(characters.size()) + " different characters, and at most " +
                 std::to_string(kTokensMax) + " are accepted; use the option ':tokens=bytes'"};
  return AnyTokenizer(std::make_shared<const CharacterTokenizer>(std::move(characters)));
}

Result<AnyTokenizer> parse_characters(std::string_view rest) {
  const Error wrong{"the second line of the tokenizer is not 'characters' and 1 to " +
                    std::to_string(kTokensMax) +
                    " hexadecimal code points or ranges of them, ascending, as in 'characters a 20-7e e9'"};
  if (!rest.ends_with('\n')) return wrong;
  rest.remove_suffix(1);
  rest.remove_prefix(std::string_view("characters ").size());
  std::vector<char32_t> characters;
  for (const std::string_view range : starling::split(rest, ' ')) {
    const std::size_t dash = range.find('-');
    const auto first = parse_character(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_character(range.substr(dash + 1));
    if (!first || !last || *last < *first || (!characters.empty() && *first <= characters.back()) ||
        *last - *first >= kTokensMax - characters.size() || (*first < 0xd800 && *last > 0xdfff))
      return wrong;
    for (char32_t c = *first; c <= *last; ++c) characters.push_back(c);
  }
  return AnyTokenizer(std::make_shared<const CharacterTokenizer>(std::move(characters)));
}

}  // namespace starling::datasets::text
