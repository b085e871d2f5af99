#include "datasets/text/parse.h"

#include "datasets/text/bpe.h"
#include "datasets/text/bytes.h"
#include "datasets/text/characters.h"

namespace starling::datasets::text {

Result<AnyTokenizer> parse_tokenizer(std::string_view text) {
  constexpr std::string_view kFirstLine = "starling tokenizer 1\n";
  if (text.size() > kTokenizerBytesMax)
    return Error{"the tokenizer has more than the " + std::to_string(kTokenizerBytesMax) +
                 " bytes that are accepted"};
  if (!text.starts_with(kFirstLine))
    return Error{"this is no tokenizer: its first line is not 'starling tokenizer 1'"};
  const std::string_view rest = text.substr(kFirstLine.size());
  if (rest.starts_with("characters ")) return parse_characters(rest);
  if (rest.starts_with("bpe ")) return parse_bpe(rest);
  if (rest == "bytes\n") return make_bytes();
  return Error{"the second line of the tokenizer is none of 'characters ...', 'bytes' and 'bpe ...'"};
}

}  // namespace starling::datasets::text
