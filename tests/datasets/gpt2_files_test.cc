#include "datasets/text/gpt2_files.h"

#include <algorithm>

#include "datasets/readers/tokenizer_files.h"
#include "datasets/text/parse.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

using text::gpt2_character;
using text::parse_gpt2;

text::AnyTokenizer small_gpt2() {
  auto more = kGpt2Results;
  more.emplace_back("<|endoftext|>");
  const auto tokenizer = parse_gpt2({gpt2_vocabulary(more), kGpt2Merges});
  INFO((tokenizer ? "" : tokenizer.error().message));
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

TEST_CASE("the characters for bytes are those of GPT-2") {
  CHECK(gpt2_character('!') == 0x21);
  CHECK(gpt2_character('~') == 0x7e);
  CHECK(gpt2_character(0) == 0x100);
  CHECK(gpt2_character('\n') == 0x10a);
  CHECK(gpt2_character(' ') == 0x120);
  CHECK(gpt2_character(0x7f) == 0x121);
  CHECK(gpt2_character(0xa0) == 0x142);
  CHECK(gpt2_character(0xad) == 0x143);
  CHECK(gpt2_character(0xff) == 0xff);
}

TEST_CASE("the first tokens of GPT-2 encode as GPT-2 does") {
  const auto tokenizer = small_gpt2();
  CHECK(tokenizer->size() == 264);
  CHECK(*tokenizer->encode(" the") == Tokens{262});
  CHECK(*tokenizer->encode("in") == Tokens{259});
  CHECK(*tokenizer->encode("!A\n ") == Tokens{0, 32, 198, 220});  // as in GPT-2: Ċ is 198 and Ġ 220
  CHECK(*tokenizer->encode("there on") == Tokens{83, 258, 260, 220, 261});
  CHECK(tokenizer->decode_one(262) == " the");
  CHECK(tokenizer->decode_one(263) == "<|endoftext|>");
  CHECK(*tokenizer->encode("<|endoftext|>") == Tokens{263});
}

TEST_CASE("added tokens, and tokens whose text is in angles or brackets, are special") {
  auto more = kGpt2Results;
  for (const char* text : {"</s>", "[PAD]", "<|im_end|>", "made-up", "<not one>"}) more.emplace_back(text);
  const std::string vocabulary = gpt2_vocabulary(more);  // "</s>" is 263
  const std::string added = R"({"##new": 268, "[PAD]": 264})",
                    whole = R"({"version": "1.0", "model": {"vocab": {"a": [1, {"b": "}"}]}},
                                "added_tokens": [{"id": 269, "content": "<tool>", "x": [null]},
                                 {"content": "made-up", "id": 266}]})";
  const auto plain = parse_gpt2({vocabulary, kGpt2Merges});
  REQUIRE(plain.ok());
  CHECK(*(*plain)->encode("in</s>[PAD]<|im_end|>") == Tokens{259, 263, 264, 265});
  CHECK((*plain)->is_special(263));
  CHECK_FALSE((*plain)->is_special(266));
  CHECK(std::ranges::count(*(*plain)->encode("made-up<not one>"), 266) == 0);
  const auto full = parse_gpt2({vocabulary, kGpt2Merges, added, whole});
  INFO((full ? "" : full.error().message));
  REQUIRE(full.ok());
  CHECK((*full)->size() == 270);
  CHECK(*(*full)->encode("in##new</s>made-up<tool>[PAD]") == Tokens{259, 268, 263, 266, 269, 264});
  CHECK((*full)->decode(Tokens{268, 269}) == "##new<tool>");
  const std::string text = "in##new</s> <tool>";
  const auto as_text = *(*full)->encode_plain(text);
  CHECK(std::ranges::none_of(as_text, [&](std::uint16_t token) { return (*full)->is_special(token); }));
  CHECK((*full)->decode(as_text) == text);
  const auto again = text::parse_tokenizer((*full)->text());
  REQUIRE(again.ok());
  CHECK((*again)->text() == (*full)->text());
  CHECK(*(*again)->encode(text) == *(*full)->encode(text));

  const auto error = [&](const std::string& more_added, const std::string& more_whole) {
    const auto tokenizer = parse_gpt2({vocabulary, kGpt2Merges, more_added, more_whole});
    REQUIRE_FALSE(tokenizer.ok());
    return tokenizer.error().message;
  };
  CHECK(error(R"({"new": 270})", "") == "vocab.json has tokens up to 270, but none with the number 268");
  CHECK(contains(error(R"({"new": 264})", ""),
                 "added_tokens.json, byte 8: expected another number, because two"));
  CHECK(contains(error(R"({"</s>": 268})", ""), "because the one before it occurs twice"));
  CHECK(contains(error("", R"({"added_tokens": [{"id": 3}]})"),
                 "expected an added token with 'id' and 'content'"));
  for (const char* broken : {"{", "[]", R"({"a": [1, })", R"({"a": "b" "c": 1})", R"({"added_tokens": 3})"})
    CHECK(contains(error("", broken), "tokenizer.json, byte "));
}

TEST_CASE("special tokens in a text are told, and are text with the option") {
  TemporaryFolder folder;
  auto more = kGpt2Results;
  more.emplace_back("</s>");
  folder.write("vocab.json", bytes_in(gpt2_vocabulary(more)));
  folder.write("merges.txt", bytes_in(kGpt2Merges));
  folder.write("added_tokens.json", bytes_in(R"({"<tool>": 264})"));
  folder.write("book.txt", bytes_in(repeated("in the</s>", 20)));
  const std::string path = folder.path("book.txt") + ":tokens=" + folder.path();
  const auto pair = load(path, ""), plain = load(path + ":special=text", "");
  INFO((pair.ok() ? "" : pair.error().message));
  REQUIRE(pair.ok());
  REQUIRE(plain.ok());
  CHECK(pair->train.classes == 265);
  CHECK(pair->origin.decisions ==
        std::vector<std::string>{
            "the text has 20 special tokens, the first is '</s>'; ':special=text' reads them as text"});
  CHECK(std::ranges::count(pair->train.tokens, 263) + std::ranges::count(pair->test.tokens, 263) == 20);
  CHECK(std::ranges::count(plain->train.tokens, 263) == 0);
  CHECK(plain->origin.decisions.empty());
  CHECK(load(path + ":special=tokens", "")->origin.decisions.empty());
}

TEST_CASE("a special token in a text is one token, and divides the text") {
  const auto tokenizer = small_gpt2();
  // As tokenizers.Tokenizer does it with this vocabulary, these merges and <|endoftext|> as a special token.
  CHECK(*tokenizer->encode("in<|endoftext|> the<|endoftext|>") == Tokens{259, 263, 262, 263});
  CHECK(*tokenizer->encode("<|endoftext|><|endoftext|>") == Tokens{263, 263});
  CHECK(*tokenizer->encode("t<|endoftext|>he") == Tokens{83, 263, 258});
  CHECK(std::ranges::count(*tokenizer->encode("<|endoftext"), 263) == 0);
  const auto part = *tokenizer->encode("<|<|endoftext|>|>");
  CHECK(tokenizer->decode(part) == "<|<|endoftext|>|>");
  CHECK(std::ranges::count(part, 263) == 1);
}

TEST_CASE("a tokenizer of GPT-2's files has a text form with the same numbers") {
  Random random(8);
  const auto tokenizer = small_gpt2();
  const auto copy = text::parse_tokenizer(tokenizer->text());
  REQUIRE(copy.ok());
  CHECK((*copy)->text() == tokenizer->text());
  for (int i = 0; i < 100; ++i) {
    const std::string words = random_text(random, 40), any = random_bytes(random, 40);
    REQUIRE(*(*copy)->encode(words) == *tokenizer->encode(words));
    REQUIRE(tokenizer->decode(*tokenizer->encode(any)) == any);
  }
}

TEST_CASE("vocab.json may have escapes, any order and any spaces") {
  std::string json = gpt2_vocabulary(kGpt2Results);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = json.find(from);
    REQUIRE(at != std::string::npos);
    json.replace(at, from.size(), to);
  };
  replace("\"Ġthe\"", "\r\n\t\"\\u0120the\"");
  replace("\"in\": 259", "\"\\ud83d\\ude00\\/\": 263, \"in\" :259");
  const auto tokenizer = parse_gpt2({json, kGpt2Merges});
  REQUIRE(tokenizer.ok());
  CHECK(*(*tokenizer)->encode(" the") == Tokens{262});
  CHECK((*tokenizer)->decode_one(263) == "😀/");  // a character beyond the table stands for itself
}

TEST_CASE("an error in vocab.json names file and place") {
  const auto vocabulary_error = [](const std::string& json) {
    const auto tokenizer = parse_gpt2({json, ""});
    REQUIRE_FALSE(tokenizer.ok());
    return tokenizer.error().message;
  };
  CHECK(vocabulary_error("") == "vocab.json, byte 0: expected '{'");
  CHECK(vocabulary_error("{\"a\": 0") == "vocab.json, byte 7: expected ',' or '}'");
  CHECK(vocabulary_error("{\"a\": 0} x") == "vocab.json, byte 9: expected the end");
  CHECK(vocabulary_error("{\"a\" 0}") == "vocab.json, byte 5: expected ':'");
  CHECK(vocabulary_error("{a: 0}") == "vocab.json, byte 1: expected '\"' and the text of a token");
  CHECK(vocabulary_error("{\"a") == "vocab.json, byte 3: expected '\"' at the end of the text of a token");
  CHECK(contains(vocabulary_error("{\"\": 0}"), "byte 3: expected at least one character"));
  CHECK(contains(vocabulary_error("{\"\xff\": 0}"), "byte 2: expected a character of UTF-8"));
  for (const char* text : {"\\x", "\\u12", "\\ud800", "\\udc00", "\\ud800\\u0041"})
    CHECK(contains(vocabulary_error("{\"" + std::string(text) + "\": 0}"),
                   "byte 2: expected one of JSON's escapes"));
  for (const char* number : {"-1", "65536", "01", "1e3", "\"1\"", "1.0", "99999999999999999999"})
    CHECK(contains(vocabulary_error("{\"a\": " + std::string(number) + "}"), "vocab.json, byte "));
  CHECK(contains(vocabulary_error("{\"a\": 0, \"b\": 0}"), "two tokens have the number 0"));
  CHECK(contains(vocabulary_error("{\"a\": 0, \"a\": 1}"), "occurs twice"));
  CHECK(vocabulary_error("{\"a\": 0, \"b\": 2}") ==
        "vocab.json has tokens up to 2, but none with the number 1");
  CHECK(contains(vocabulary_error("{\"a\": 0}"), "has no token 'Ā', which stands for the byte 0"));
}

TEST_CASE("an error in merges.txt names file and line") {
  const auto merges_error = [](const std::string& merges) {
    const auto tokenizer = parse_gpt2({gpt2_vocabulary(kGpt2Results), merges});
    REQUIRE_FALSE(tokenizer.ok());
    return tokenizer.error().message;
  };
  CHECK(merges_error("#version: 0.2\nĠ\n") ==
        "merges.txt, line 2 is not two token texts and a space between them");
  CHECK(merges_error("h e x\n") == "merges.txt, line 1 is not two token texts and a space between them");
  CHECK(merges_error("zz e\n") == "merges.txt, line 1: its left token is not in vocab.json");
  CHECK(merges_error("h zz\n") == "merges.txt, line 1: its right token is not in vocab.json");
  CHECK(merges_error("h h\n") == "merges.txt, line 1: its result is not in vocab.json");
  CHECK(
      merges_error("Ġt he\n") ==
      "merges.txt: merge 1 joins the token 256, which is neither a byte nor the result of an earlier merge");
}

TEST_CASE("a tokenizer is loaded from its file or from a folder, and errors name the file") {
  TemporaryFolder folder;
  const std::string own = folder.write("some.txt", bytes_in("starling tokenizer 1\nbytes\n"));
  CHECK((*load_tokenizer(own))->kind() == "bytes");
  CHECK(contains(load_tokenizer(folder.path()).error().message,
                 "contains no tokenizer: neither tokenizer.txt nor"));
  CHECK_FALSE(has_tokenizer(folder.path()));
  folder.write("vocab.json", bytes_in(gpt2_vocabulary(kGpt2Results)));
  CHECK(contains(load_tokenizer(folder.path()).error().message, "has no file merges.txt"));
  folder.write_gzip("merges.txt.gz", bytes_in(kGpt2Merges));
  CHECK(has_tokenizer(folder.path()));
  CHECK(*(*load_tokenizer(folder.path()))->encode(" the") == Tokens{262});
  folder.write("tokenizer.txt", bytes_in("starling tokenizer 1\ncharacters 61\n"));
  CHECK((*load_tokenizer(folder.path()))->kind() == "characters");
  folder.write("bad.txt", bytes_in("hello"));
  CHECK(contains(load_tokenizer(folder.path("bad.txt")).error().message, "bad.txt': this is no tokenizer"));
  CHECK(contains(load_tokenizer(folder.path("gone.txt")).error().message, "gone.txt' was not found"));
  folder.write("large.txt", FileBytes(4'000'001, 'x'));
  CHECK(contains(load_tokenizer(folder.path("large.txt")).error().message, "more than the 4000000 bytes"));
}

}  // namespace
}  // namespace starling::datasets
