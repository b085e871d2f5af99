#include "datasets/text/gpt2_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

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

// The tokens of all files.
struct Gpt2Vocabulary {
  TokenNumbers numbers;
  std::vector<bool> seen;   // numbers
  std::vector<bool> added;  // numbers of tokens that were added later, which are special
};

// Appends the tokens of a file of JSON (RFC 8259). Those of an added file may be known already.
class VocabularyReader {
 public:
  VocabularyReader(const char* file, std::string_view text, Gpt2Vocabulary& known, bool added)
      : file_(file), text_(text), known_(known), added_(added) {}

  // The file is an object whose values are the numbers of tokens.
  Status read() {
    if (!take('{')) return wrong("'{'");
    if (!take('}')) {
      do {
        if (const Status entry = read_entry(); !entry) return entry.error();
      } while (take(','));
      if (!take('}')) return wrong("',' or '}'");
    }
    return read_end();
  }

  // The file is an object whose "added_tokens" is an array of objects with "id" and "content".
  Status read_added() {
    return for_each_key([this](const std::string& key) -> Status {
      if (key != "added_tokens") return skip_value();
      if (!take('[')) return wrong("'['");
      if (take(']')) return Done{};
      do {
        if (const Status entry = read_added_entry(); !entry) return entry;
      } while (take(','));
      return take(']') ? Status(Done{}) : wrong("',' or ']'");
    });
  }

 private:
  Error wrong(const std::string& expected) const {
    return Error{std::string(file_) + ", byte " + std::to_string(at_) + ": expected " + expected};
  }

  Status read_end() {
    skip_space();
    return at_ == text_.size() ? Status(Done{}) : wrong("the end");
  }

  // Reads an object. read(key) reads the key's value.
  template <class Read>
  Status for_each_key(Read&& read) {
    if (!take('{')) return wrong("'{'");
    if (take('}')) return Done{};
    do {
      std::string key;
      if (const Status text = read_string(key); !text) return text;
      if (!take(':')) return wrong("':'");
      if (const Status value = read(key); !value) return value;
    } while (take(','));
    return take('}') ? Status(Done{}) : wrong("',' or '}'");
  }

  Status read_added_entry() {
    std::string content;
    std::size_t id = kTokensMax;
    const Status entry = for_each_key([&](const std::string& key) -> Status {
      skip_space();
      return key == "content" ? read_string(content) : key == "id" ? read_number(id) : skip_value();
    });
    if (!entry) return entry;
    if (content.empty() || id == kTokensMax) return wrong("an added token with 'id' and 'content'");
    return add(std::move(content), id);
  }

  // A value of which nothing is needed.
  Status skip_value() {
    std::size_t depth = 0;
    do {
      skip_space();
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      std::string ignored;
      if (c == '"') {
        if (const Status text = read_string(ignored); !text) return text;
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (depth > 0 && (c == '}' || c == ']')) {
        --depth, ++at_;
      } else if (depth > 0 && (c == ',' || c == ':')) {
        ++at_;
      } else {
        const std::size_t end =
            std::min(text_.size(), text_.find_first_not_of("+-.0123456789Eaeflnrstu", at_));
        if (end == at_) return wrong("a value of JSON");
        at_ = end;
      }
    } while (depth > 0);
    return Done{};
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
    if (token_text.empty()) return wrong("at least one character in the text of a token");
    if (!take(':')) return wrong("':'");
    skip_space();
    std::size_t number = 0;
    const std::size_t begin = at_;
    if (const Status read = read_number(number); !read) return read;
    const std::size_t end = std::exchange(at_, begin);  // where an error is
    if (const Status fits = add(std::move(token_text), number); !fits) return fits;
    at_ = end;
    return Done{};
  }

  Status read_number(std::size_t& number) {
    const std::size_t end = std::min(text_.size(), text_.find_first_not_of("0123456789", at_));
    const std::string_view digits = text_.substr(at_, end - at_);
    const auto read = parse_number<std::size_t>(digits);
    if (!read || *read >= kTokensMax || (digits.size() > 1 && digits[0] == '0'))
      return wrong("the number of a token, 0 to " + std::to_string(kTokensMax - 1));
    number = *read;
    at_ = end;
    return Done{};
  }

  Status add(std::string token_text, std::size_t number) {
    auto& [numbers, seen, added] = known_;
    if (number >= seen.size()) seen.resize(number + 1);
    added.resize(seen.size());
    const auto known = numbers.find(token_text);
    const bool same = known != numbers.end() && known->second == number;
    if (!(added_ && same)) {
      if (seen[number])
        return wrong("another number, because two tokens have the number " + std::to_string(number));
      if (known != numbers.end()) return wrong("another token text, because the one before it occurs twice");
      numbers.emplace(std::move(token_text), static_cast<std::uint16_t>(number));
    }
    seen[number] = true;
    added[number] = added[number] || added_;
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

  const char* file_;
  std::string_view text_;
  Gpt2Vocabulary& known_;
  bool added_;
  std::size_t at_ = 0;
};

Result<Gpt2Vocabulary> read_vocabulary(const Gpt2Files& files) {
  Gpt2Vocabulary known;
  if (const Status read = VocabularyReader("vocab.json", files.vocab_json, known, false).read(); !read)
    return read.error();
  if (!files.added_tokens_json.empty()) {
    VocabularyReader added("added_tokens.json", files.added_tokens_json, known, true);
    if (const Status read = added.read(); !read) return read.error();
  }
  if (!files.tokenizer_json.empty()) {
    VocabularyReader added("tokenizer.json", files.tokenizer_json, known, true);
    if (const Status read = added.read_added(); !read) return read.error();
  }
  const auto hole = std::ranges::find(known.seen, false);
  if (hole != known.seen.end())
    return Error{"vocab.json has tokens up to " + std::to_string(known.seen.size() - 1) +
                 ", but none with the number " + std::to_string(hole - known.seen.begin())};
  return known;
}

// Whether a token that no merge makes is a special one by its text, as "</s>" and "[PAD]" are.
bool is_name_of_special(std::string_view text) {
  if (text.size() < 3) return false;
  const std::string_view inner = text.substr(1, text.size() - 2);
  const bool enclosed =
      (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return enclosed && inner.find_first_of("<>[] ") == std::string_view::npos &&
         std::ranges::any_of(inner, is_letter);
}

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

Result<AnyTokenizer> parse_gpt2(const Gpt2Files& files) {
  const auto vocabulary = read_vocabulary(files);
  if (!vocabulary) return vocabulary.error();
  const TokenNumbers* const numbers = &vocabulary->numbers;
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
  if (const Status read = read_merges(files.merges_txt, *numbers, rules); !read) return read.error();
  for (const Merge& merge : rules.merges) made[merge.result] = true;
  std::vector<const std::string*> texts(rules.size);
  for (const auto& [text, number] : *numbers) texts[number] = &text;
  for (std::size_t token = 0; token < rules.size; ++token) {
    if (made[token]) continue;
    const std::string& text = *texts[token];
    const bool special = vocabulary->added[token] || is_name_of_special(text);
    rules.others.push_back(
        {static_cast<std::uint16_t>(token), vocabulary->added[token] ? text : bytes_of(text), special});
  }
  auto tokenizer = make_bpe(std::move(rules));
  if (!tokenizer) return Error{"merges.txt: " + tokenizer.error().message};
  return tokenizer;
}

}  // namespace starling::datasets::text
