// Reads the text form of byte-pair encodings.
#include <charconv>
#include <optional>

#include "base/text.h"
#include "datasets/text/bpe.h"

namespace starling::datasets::text {
namespace {

// "262"; without signs and leading zeros.
std::optional<std::uint16_t> parse_token(std::string_view digits) {
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  return parse_number<std::uint16_t>(digits);
}

std::optional<std::string> parse_hex(std::string_view digits) {
  if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(static_cast<unsigned char>(value));
  }
  return bytes;
}

class BpeReader {
 public:
  explicit BpeReader(std::string_view rest) : rest_(rest) {}

  Result<AnyTokenizer> read() {
    const auto head = words();
    const auto size = head.size() == 3 ? parse_number<std::size_t>(head[1]) : std::nullopt;
    if (!size || *size > kTokensMax || (head[2] != "words" && head[2] != "anywhere"))
      return wrong("'bpe', the number of tokens, at most " + std::to_string(kTokensMax) +
                   ", and 'words' or 'anywhere'");
    rules_.size = *size;
    rules_.in_words = head[2] == "words";
    if (const Status bytes = read_bytes(); !bytes) return bytes.error();
    for (;;) {
      const auto line = words();
      if (line.size() == 1 && line[0] == "end") break;
      const bool sound = line.size() == 3 && (line[0] == "other" || line[0] == "special") ? add_other(line)
                                                                                          : add_merge(line);
      if (!sound)
        return wrong(
            "two tokens to join, as in '262 1234', with their result as in '262 1234 300', "
            "'other' or 'special', a token and its bytes as in 'other 50256 3c7c3e', or 'end'");
    }
    if (!rest_.empty()) return Error{"the tokenizer has text after its line 'end'"};
    return make_bpe(std::move(rules_));
  }

 private:
  // The words of the next line. Nothing, which no line accepts, if no complete line is left.
  std::vector<std::string_view> words() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return {};
    auto found = starling::split(rest_.substr(0, end), ' ');
    rest_.remove_prefix(end + 1);
    return found;
  }

  Error wrong(const std::string& expected) const {
    return Error{"line " + std::to_string(line_) + " of the tokenizer is not " + expected};
  }

  Status read_bytes() {
    const auto line = words();
    bool sound = line.size() == 1 + rules_.bytes.size() && line[0] == "bytes";
    for (std::size_t i = 0; sound && i < rules_.bytes.size(); ++i) {
      const auto token = parse_token(line[1 + i]);
      sound = token.has_value();
      rules_.bytes[i] = token.value_or(0);
    }
    if (!sound) return wrong("'bytes' and the tokens of the 256 bytes");
    return Done{};
  }

  bool add_other(const std::vector<std::string_view>& line) {
    const auto token = parse_token(line[1]);
    auto bytes = parse_hex(line[2]);
    if (!token || !bytes) return false;
    rules_.others.push_back({*token, std::move(*bytes), line[0] == "special"});
    return true;
  }

  bool add_merge(const std::vector<std::string_view>& line) {
    if (line.size() != 2 && line.size() != 3) return false;
    if (!rules_.others.empty()) return false;
    const auto left = parse_token(line[0]), right = parse_token(line[1]);
    std::size_t result = rules_.merges.empty() ? 256 : rules_.merges.back().result + std::size_t{1};
    if (line.size() == 3) {
      const auto named = parse_token(line[2]);
      if (!named) return false;
      result = *named;
    }
    if (!left || !right || result > UINT16_MAX || rules_.merges.size() > kTokensMax) return false;
    rules_.merges.push_back({*left, *right, static_cast<std::uint16_t>(result)});
    return true;
  }

  std::string_view rest_;
  std::size_t line_ = 1;  // the number of the line that words() returned last
  BpeRules rules_;
};

}  // namespace

Result<AnyTokenizer> parse_bpe(std::string_view rest) { return BpeReader(rest).read(); }

}  // namespace starling::datasets::text
