#include "datasets/text/tokenizer.h"

#include "datasets/text/bytes.h"
#include "datasets/text/characters.h"
#include "datasets/text/parse.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

using text::make_bytes;
using text::make_characters;
using text::parse_tokenizer;

text::AnyTokenizer characters_of(std::string_view text) {
  const auto tokenizer = make_characters(std::array{text});
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

std::string parse_error(const std::string& rest) {
  const auto tokenizer = parse_tokenizer("starling tokenizer 1\n" + rest);
  REQUIRE_FALSE(tokenizer.ok());
  CHECK_FALSE(contains(tokenizer.error().message, "\n"));
  return tokenizer.error().message;
}

TEST_CASE("the tokens of characters are the sorted characters of the text") {
  const auto tokenizer = characters_of("hello, wörld\n你");
  CHECK(tokenizer->kind() == "characters");
  CHECK(tokenizer->size() == 12);  // \n space , d e h l o r w ö 你
  CHECK(*tokenizer->encode("\n ,dehlorwö你") == Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(*tokenizer->encode("lö") == Tokens{6, 10});
  CHECK(tokenizer->decode_one(11) == "你");
  CHECK(tokenizer->decode(Tokens{5, 4, 6, 6, 7}) == "hello");
  CHECK(tokenizer->encode("")->empty());
}

TEST_CASE("a text with a character that the vocabulary lacks is an error with character and offset") {
  const auto tokenizer = characters_of("abcä");
  CHECK(tokenizer->encode("äbx").error().message ==
        "the character 'x' (U+0078) at byte 3 is none of the 4 characters of the vocabulary");
  CHECK(tokenizer->encode("a\n").error().message ==
        "the character U+000A at byte 1 is none of the 4 characters of the vocabulary");
  CHECK(tokenizer->encode("ab\xff").error().message == "byte 2 is not part of UTF-8");
}

TEST_CASE("a text without characters, or with too many different ones, has no vocabulary") {
  CHECK(contains(make_characters(std::array{std::string_view()}).error().message, "the text is empty"));
  std::string all;
  for (char32_t c = 0; c < 70'000; ++c)
    if (c < 0xd800 || c > 0xdfff) text::append_character(c, all);
  CHECK(make_characters(std::array{std::string_view(all)}).error().message ==
        "the text has 67952 different characters, and at most 65536 are accepted; use the option "
        "':tokens=bytes'");
}

TEST_CASE("bytes and characters restore every text") {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string any = random_bytes(random, random.below(50));
    const auto tokens = make_bytes()->encode(any);
    REQUIRE(tokens.ok());
    REQUIRE(tokens->size() == any.size());
    REQUIRE(make_bytes()->decode(*tokens) == any);
    const std::string words = "." + random_text(random, random.below(30));
    const auto tokenizer = characters_of(words);
    REQUIRE(tokenizer->decode(*tokenizer->encode(words)) == words);
    const auto copy = parse_tokenizer(tokenizer->text());
    REQUIRE(copy.ok());
    REQUIRE((*copy)->text() == tokenizer->text());
    REQUIRE((*copy)->fingerprint() == tokenizer->fingerprint());
    REQUIRE(*(*copy)->encode(words) == *tokenizer->encode(words));
  }
}

TEST_CASE("the text form of characters and bytes is compact and exact") {
  CHECK(characters_of("cab\né")->text() == "starling tokenizer 1\ncharacters a 61-63 e9\n");
  CHECK(make_bytes()->text() == "starling tokenizer 1\nbytes\n");
  CHECK(make_bytes()->size() == 256);
  CHECK((*parse_tokenizer(make_bytes()->text()))->kind() == "bytes");
  CHECK(make_bytes()->fingerprint() != characters_of("a")->fingerprint());
}

TEST_CASE("a wrong text form is rejected with what would be right") {
  CHECK(contains(parse_tokenizer("").error().message, "its first line is not 'starling tokenizer 1'"));
  CHECK(contains(parse_tokenizer("starling tokenizer 2\nbytes\n").error().message, "its first line is not"));
  CHECK(
      contains(parse_tokenizer(std::string(4'000'001, ' ')).error().message, "more than the 4000000 bytes"));
  for (const char* rest : {"", "bytes", "bytes\n\n", "byte\n", "words 1\n"})
    CHECK(contains(parse_error(rest), "none of 'characters ...', 'bytes' and 'bpe ...'"));
  for (const char* rest :
       {"characters \n", "characters 61", "characters 62 61\n", "characters 61 61\n", "characters 63-61\n",
        "characters 61-\n", "characters 061\n", "characters A\n", "characters d800\n",
        "characters d7ff-e000\n", "characters 110000\n", "characters 0-10000\n", "characters 0-ffff\n",
        "characters 61  62\n", "characters 61\nbytes\n", "characters -61\n", "characters 100000000061\n"})
    CHECK(contains(parse_error(rest), "hexadecimal code points or ranges of them, ascending"));
}

}  // namespace
}  // namespace starling::datasets
