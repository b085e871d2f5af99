#include "datasets/text/gpt2_files.h"

#include <array>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "datasets/text/bpe.h"
#include "datasets/text/characters.h"

namespace starling::datasets::text {
namespace {

constexpr std::array<char32_t, 256> kCharacterOfByte = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}();

// The bytes for which a token text stands. Other characters, as special tokens may have, stand for
// themselves.
std::string bytes_of(std::string_view token_text) {
  static const std::unordered_map<char32_t, char> kByteOf = [] {
    std::unordered_map<char32_t, char> bytes;
    for (std::size_t byte = 0; byte < 256; ++byte)
      bytes[kCharacterOfByte[byte]] = static_cast<char>(static_cast<unsigned char>(byte));
    return bytes;
  }();
  std::string bytes;
  for (std::size_t at = 0; at < token_text.size();) {
    const auto character = next_character(token_text, at);
    STARLING_CHECK(character.has_value());
    const auto byte = kByteOf.find(*character);
    if (byte == kByteOf.end()) {
      append_character(*character, bytes);
    } else {
      bytes += byte->second;
    }
  }
  return bytes;
}

using TokenNumbers = std::unordered_map<std::string, std::uint16_t>;

// An object of JSON (RFC 8259) whose values are the numbers of tokens.
class VocabularyReader {
 public:
  explicit VocabularyReader(std::string_view text) : text_(text) {}

  Result<TokenNumbers> read() {
    if (!take('{')) return wrong("'{'");
    if (!take('}')) {
      do {
        if (const Status entry = read_entry(); !entry) return entry.error();
      } while (take(','));
      if (!take('}')) return wrong("',' or '}'");
    }
    skip_space();
    if (at_ != text_.size()) return wrong("the end");
    for (std::size_t token = 0; token < seen_.size(); ++token) {
      if (!seen_[token])
        return Error{"vocab.json has tokens up to " + std::to_string(seen_.size() - 1) +
                     ", but none with the number " + std::to_string(token)};
    }
    return std::move(numbers_);
  }

 private:
  Error wrong(const std::string& expected) const {
    return Error{"vocab.json, byte " + std::to_string(at_) + ": expected " + expected};
  }

  void skip_space() { at_ = std::min(text_.size(), text_.find_first_not_of(" \t\r\n", at_)); }

  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status read_entry() {
    std::string token_text;
    if (const Status read = read_string(token_text); !read) return read.error();
    if (!take(':')) return wrong("':'");
    skip_space();
    const std::size_t end = std::min(text_.size(), text_.find_first_not_of("0123456789", at_));
    const std::string_view digits = text_.substr(at_, end - at_);
    const auto number = parse_number<std::size_t>(digits);
    if (!number || *number >= kTokensMax || (digits.size() > 1 && digits[0] == '0'))
      return wrong("the number of a token, 0 to " + std::to_string(kTokensMax - 1));
    if (*number >= seen_.size()) seen_.resize(*number + 1);
    if (seen_[*number])
      return wrong("another number, because two tokens have the number " + std::to_string(*number));
    seen_[*number] = true;
    if (!numbers_.try_emplace(std::move(token_text), static_cast<std::uint16_t>(*number)).second)
      return wrong("another token text, because the one before it occurs twice");
    at_ = end;
    return Done{};
  }

  Status read_string(std::string& text) {
    if (!take('"')) return wrong("'\"' and the text of a token");
    for (;;) {
      const std::size_t begin = at_;
      if (at_ == text_.size()) return wrong("'\"' at the end of the text of a token");
      const auto character = next_character(text_, at_);
      if (!character || *character < 0x20) {
        at_ = begin;
        return wrong("a character of UTF-8 that is no control");
      }
      if (*character == '"') break;
      const auto meant = *character == '\\' ? escaped() : character;
      if (!meant) {
        at_ = begin;
        return wrong("one of JSON's escapes, as in \\\" or \\u0120");
      }
      append_character(*meant, text);
    }
    if (text.empty()) return wrong("at least one character in the text of a token");
    return Done{};
  }

  // What follows a backslash.
  std::optional<char32_t> escaped() {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) return std::nullopt;
    const char letter = text_[at_++];
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos)
      return static_cast<unsigned char>(kMeant[known]);
    const auto unit = letter == 'u' ? unit_of_four_digits() : std::nullopt;
    if (!unit || *unit < 0xd800 || *unit > 0xdfff) return unit;
    if (*unit > 0xdbff || !text_.substr(at_).starts_with("\\u")) return std::nullopt;
    at_ += 2;
    const auto low = unit_of_four_digits();
    if (!low || *low < 0xdc00 || *low > 0xdfff) return std::nullopt;
    return 0x10000 + ((*unit - 0xd800) << 10) + (*low - 0xdc00);
  }

  std::optional<char32_t> unit_of_four_digits() {
    char32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at_ < text_.size() ? text_[at_++] : '\0';
      const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!digit && !lower && !upper) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : c - (lower ? 'a' : 'A') + 10);
    }
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  TokenNumbers numbers_;
  std::vector<bool> seen_;  // numbers
};

Status read_merges(std::string_view text, const TokenNumbers& numbers, BpeRules& rules) {
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.size(), text.find('\n'));
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::string where = "merges.txt, line " + std::to_string(number);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return Error{where + " is not two token texts and a space between them"};
    const std::string left(line.substr(0, space)), right(line.substr(space + 1));
    std::array<std::uint16_t, 3> tokens{};
    const std::array<const char*, 3> parts = {"left token", "right token", "result"};
    const std::array<std::string, 3> texts = {left, right, left + right};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto known = numbers.find(texts[i]);
      if (known == numbers.end()) return Error{where + ": its " + parts[i] + " is not in vocab.json"};
      tokens[i] = known->second;
    }
    if (rules.merges.size() == kTokensMax)
      return Error{where + " is one more than the " + std::to_string(kTokensMax) +
                   " merges that are accepted"};
    rules.merges.push_back({tokens[0], tokens[1], tokens[2]});
  }
  return Done{};
}

}  // namespace

char32_t gpt2_character(unsigned char byte) { return kCharacterOfByte[byte]; }

Result<AnyTokenizer> parse_gpt2(std::string_view vocab_json, std::string_view merges_txt) {
  const auto numbers = VocabularyReader(vocab_json).read();
  if (!numbers) return numbers.error();
  BpeRules rules;
  rules.size = numbers->size();
  std::vector<bool> made(rules.size);
  for (std::size_t byte = 0; byte < rules.bytes.size(); ++byte) {
    std::string character;
    append_character(kCharacterOfByte[byte], character);
    const auto known = numbers->find(character);
    if (known == numbers->end())
      return Error{"vocab.json has no token '" + character + "', which stands for the byte " +
                   std::to_string(byte)};
    rules.bytes[byte] = known->second;
    made[known->second] = true;
  }
  if (const Status read = read_merges(merges_txt, *numbers, rules); !read) return read.error();
  for (const Merge& merge : rules.merges) made[merge.result] = true;
  std::vector<const std::string*> texts(rules.size);
  for (const auto& [text, number] : *numbers) texts[number] = &text;
  for (std::size_t token = 0; token < rules.size; ++token) {
    if (!made[token]) rules.others.emplace_back(static_cast<std::uint16_t>(token), bytes_of(*texts[token]));
  }
  auto tokenizer = make_bpe(std::move(rules));
  if (!tokenizer) return Error{"merges.txt: " + tokenizer.error().message};
  return tokenizer;
}

}  // namespace starling::datasets::text
