// The text form of a tokenizer, GPT-2's four files, and the header of a file of tokens: an error, or a
// tokenizer that restores every text and keeps its text form.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "datasets/text/gpt2_files.h"
#include "datasets/text/parse.h"
#include "datasets/text/token_header.h"
#include "datasets/text/tokenizer.h"

using namespace starling;

namespace {

using datasets::text::AnyTokenizer;

void check_tokenizer(const Result<AnyTokenizer>& tokenizer, std::string_view some_text) {
  if (!tokenizer) {
    STARLING_CHECK(!tokenizer.error().message.empty());
    return;
  }
  const auto& its = **tokenizer;
  STARLING_CHECK(its.size() > 0 && its.size() <= datasets::text::kTokensMax);
  const auto copy = datasets::text::parse_tokenizer(its.text());
  STARLING_CHECK(copy.ok() && (*copy)->text() == its.text() && (*copy)->fingerprint() == its.fingerprint());
  const auto tokens = its.encode(some_text);
  STARLING_CHECK(tokens.ok() || its.kind() == "characters");
  if (!tokens) return;
  for (const std::uint16_t token : *tokens) STARLING_CHECK(token < its.size());
  STARLING_CHECK(its.decode(*tokens) == some_text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  // Zero bytes separate the parts.
  const std::size_t end = text.find('\0');
  const std::string_view first = text.substr(0, end), second = end < text.size() ? text.substr(end + 1) : "";
  if (data[0] % 3 == 0) {
    check_tokenizer(datasets::text::parse_tokenizer(first), second);
  } else if (data[0] % 3 == 1) {
    const auto files = starling::split(second, '\0');  // merges.txt, added_tokens.json and tokenizer.json
    const auto file = [&](std::size_t i) { return i < files.size() ? files[i] : std::string_view(); };
    check_tokenizer(datasets::text::parse_gpt2({first, file(0), file(1), file(2)}), text);
  } else {
    const auto header = datasets::text::read_token_header(std::span(data + 1, size - 1));
    STARLING_CHECK(header.ok() || !header.error().message.empty());
  }
  return 0;
}
