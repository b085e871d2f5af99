#include "datasets/text/bpe.h"

#include <algorithm>
#include <map>

#include "datasets/text/bpe_training.h"
#include "datasets/text/parse.h"
#include "datasets/text/words.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

using text::AnyTokenizer;
using text::BpeTraining;
using text::parse_tokenizer;
using text::train_bpe;

AnyTokenizer trained(std::string_view text, std::size_t size, bool in_words = true) {
  const auto tokenizer = train_bpe(std::array{text}, {.size = size, .in_words = in_words});
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

// The definition, as slow as it is short: every count from scratch, every pair one by one.
struct PlainBpe {
  using Pair = std::pair<int, int>;
  std::vector<std::pair<Pair, int>> merges;
  std::vector<std::size_t> lengths = std::vector<std::size_t>(256, 1);

  static std::vector<int> joined(const std::vector<int>& tokens, const Pair& pair, int result) {
    std::vector<int> after;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool here = i + 1 < tokens.size() && Pair(tokens[i], tokens[i + 1]) == pair;
      after.push_back(here ? result : tokens[i]);
      if (here) ++i;
    }
    return after;
  }

  static std::vector<std::vector<int>> divided(const std::string& text, bool in_words) {
    std::vector<std::vector<int>> words;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = in_words ? text::end_of_word(text, begin) : text.size();
      auto& word = words.emplace_back();
      for (; begin < end; ++begin) word.push_back(static_cast<unsigned char>(text[begin]));
    }
    return words;
  }

  void train(const std::string& text, std::size_t size, bool in_words) {
    auto words = divided(text, in_words);
    while (lengths.size() < size) {
      std::map<Pair, int> counts;
      for (const auto& word : words)
        for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
      Pair best;
      int most = 1;
      for (const auto& [pair, count] : counts) {  // ascending, so that the first of equals wins
        const auto length = [&](int token) { return lengths[static_cast<std::size_t>(token)]; };
        if (count > most && length(pair.first) + length(pair.second) <= 256) best = pair, most = count;
      }
      if (most < 2) return;
      const auto length = [&](int token) { return lengths[static_cast<std::size_t>(token)]; };
      const int result = static_cast<int>(lengths.size());
      lengths.push_back(length(best.first) + length(best.second));
      merges.emplace_back(best, result);
      for (auto& word : words) word = joined(word, best, result);
    }
  }

  Tokens encode(const std::string& text, bool in_words) const {
    Tokens all;
    for (auto word : divided(text, in_words)) {
      for (const auto& [pair, result] : merges) word = joined(word, pair, result);
      for (const int token : word) all.push_back(static_cast<std::uint16_t>(token));
    }
    return all;
  }
};

TEST_CASE("the textbook example is encoded as in minbpe") {
  const auto tokenizer = trained("aaabdaaabac", 256 + 3, false);
  CHECK(*tokenizer->encode("aaabdaaabac") == Tokens{258, 100, 258, 97, 99});
  CHECK(tokenizer->decode_one(258) == "aaab");
  CHECK(tokenizer->size() == 259);
  CHECK(tokenizer->kind() == "bpe");
}

TEST_CASE("training and encoding follow the plain definition on random texts") {
  Random random(3);
  for (int i = 0; i < 40; ++i) {
    const bool in_words = i % 2 == 0;
    const std::string text = random_text(random, 20 + random.below(300));
    const std::size_t size = 256 + random.below(60);
    CAPTURE(i, text, size);
    PlainBpe plain;
    plain.train(text, size, in_words);
    const auto tokenizer = trained(text, size, in_words);
    REQUIRE(tokenizer->size() == plain.lengths.size());
    for (const auto& [pair, result] : plain.merges) {
      const auto part = [&](int token) {
        return std::string(tokenizer->decode_one(static_cast<std::uint16_t>(token)));
      };
      REQUIRE(part(result) == part(pair.first) + part(pair.second));
    }
    REQUIRE(*tokenizer->encode(text) == plain.encode(text, in_words));
    const std::string other = random_text(random, 100);
    REQUIRE(*tokenizer->encode(other) == plain.encode(other, in_words));
  }
}

TEST_CASE("every text and all bytes are restored from their tokens, and the text form keeps a tokenizer") {
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    const auto tokenizer = trained(random_text(random, 200), 256 + random.below(100), random.chance(0.5));
    const std::string words = random_text(random, 50), any = random_bytes(random, 50);
    REQUIRE(tokenizer->decode(*tokenizer->encode(words)) == words);
    REQUIRE(tokenizer->decode(*tokenizer->encode(any)) == any);
    const auto copy = parse_tokenizer(tokenizer->text());
    REQUIRE(copy.ok());
    REQUIRE((*copy)->text() == tokenizer->text());
    REQUIRE(*(*copy)->encode(words) == *tokenizer->encode(words));
  }
}

TEST_CASE("training does not depend on how a text is divided into documents of whole words") {
  const std::string part = "the cat and the hat, the bat and the rat.\n";
  const std::string whole = repeated(part, 20);
  const std::vector<std::string_view> parts(20, part);
  CHECK((*train_bpe(parts, {.size = 280}))->text() == trained(whole, 280)->text());
}

TEST_CASE("training ends when no pair occurs twice, and makes no token of more than 256 bytes") {
  CHECK(trained("abcd", 300)->size() == 256);
  const std::string same(100'000, 'a');
  const auto tokenizer = trained(same, 300);
  for (std::size_t token = 0; token < tokenizer->size(); ++token)
    REQUIRE(tokenizer->decode_one(static_cast<std::uint16_t>(token)).size() <= 256);
  CHECK(tokenizer->decode(*tokenizer->encode(same)) == same);
  CHECK(tokenizer->encode(same)->size() < 400);
}

TEST_CASE("training reports its progress and rejects sizes that are not possible") {
  std::size_t calls = 0, last = 0;
  Random random(9);
  const std::string text = random_text(random, 5000);
  BpeTraining training{.size = 400, .progress = [&](std::size_t merges, std::size_t of) {
                         ++calls;
                         CHECK(merges > last);
                         CHECK(of == 144);
                         last = merges;
                       }};
  CHECK(train_bpe(std::array{std::string_view(text)}, training).ok());
  CHECK(calls > 0);
  for (const std::size_t size : {std::size_t{0}, std::size_t{255}, std::size_t{65'537}})
    CHECK(contains(train_bpe(std::array{std::string_view("text")}, {.size = size}).error().message,
                   "256 (only bytes) to 65536 are accepted"));
}

// The text form with the 256 bytes in order.
std::string bpe_form(std::size_t size, const std::string& rest) {
  std::string form = "starling tokenizer 1\nbpe " + std::to_string(size) + " words\nbytes";
  for (int byte = 0; byte < 256; ++byte) form += " " + std::to_string(byte);
  return form + "\n" + rest;
}

TEST_CASE("the text form numbers results from 256 on, or as it says, and lists other tokens") {
  const auto tokenizer = parse_tokenizer(bpe_form(260, "97 98\n256 99 258\n97 97\nother 257 3c7c3e\nend\n"));
  REQUIRE(tokenizer.ok());
  CHECK(*(*tokenizer)->encode("abcabaa") == Tokens{258, 256, 259});
  CHECK((*tokenizer)->decode_one(257) == "<|>");
  CHECK(*(*tokenizer)->encode("<|>") == Tokens{'<', '|', '>'});  // never made by encode()
  CHECK((*tokenizer)->text() == bpe_form(260, "97 98\n256 99 258\n97 97\nother 257 3c7c3e\nend\n"));
  // Two merges may make the same token.
  const auto twice = parse_tokenizer(bpe_form(259, "97 98\n98 99\n256 99\n97 257 258\nend\n"));
  REQUIRE(twice.ok());
  CHECK(*(*twice)->encode("abc") == Tokens{258});
}

TEST_CASE("a wrong text form of a byte-pair encoding is an error that names its line or merge") {
  const auto message = [](const std::string& form) {
    const auto tokenizer = parse_tokenizer(form);
    REQUIRE_FALSE(tokenizer.ok());
    CHECK_FALSE(contains(tokenizer.error().message, "\n"));
    return tokenizer.error().message;
  };
  const std::string start = "starling tokenizer 1\n";
  for (const char* head :
       {"bpe 257\n", "bpe 257 word\n", "bpe x words\n", "bpe 65537 words\n", "bpe 300 words"})
    CHECK(contains(message(start + head), "line 2 of the tokenizer is not 'bpe', the number of tokens"));
  CHECK(contains(message(start + "bpe 256 words\nbytes 0 1 2\nend\n"),
                 "line 3 of the tokenizer is not 'bytes'"));
  CHECK(contains(message(bpe_form(255, "end\n")), "256 to 65536 are accepted"));
  for (const char* line : {"", "97\n", "97 98 256 1\n", "097 98\n", "97  98\n", "97 65536\n", "other 256\n",
                           "other 256 3\n", "other 256 3C\n", "End\n", "97 98"})
    CHECK(contains(message(bpe_form(257, line)), "line 4 of the tokenizer is not two tokens to join"));
  CHECK(contains(message(bpe_form(258, "other 256 61\n97 98\nend\n")), "line 5 of the tokenizer"));
  CHECK(contains(message(bpe_form(257, "97 98\nend\n\n")), "text after its line 'end'"));
  CHECK(contains(message(bpe_form(257, "97 300\nend\n")),
                 "merge 1 names the token 300, but the vocabulary ends at 256"));
  CHECK(
      contains(message(bpe_form(258, "97 257\nend\n")), "neither a byte nor the result of an earlier merge"));
  CHECK(contains(message(bpe_form(258, "97 98\n97 98\nend\n")),
                 "merge 2 joins the tokens 97 and 98, as an earlier"));
  CHECK(contains(message(bpe_form(257, "97 98 99\nend\n")), "merge 1 gives the token 99 other bytes"));
  CHECK(contains(message(bpe_form(258, "97 98\nend\n")), "the token 257 is neither a byte nor"));
  CHECK(contains(message(bpe_form(257, "other 97 61\nend\n")), "the other token 97 is the second one"));
  CHECK(contains(message(bpe_form(257, "other 256 \nend\n")), "has 0 bytes; 1 to 256 are accepted"));
  CHECK(contains(message(bpe_form(257, "other 300 61\nend\n")), "ends at 256"));
  std::string doubling;
  for (int token = 97, i = 256; i < 266; ++i) {
    doubling += std::to_string(token) + " " + std::to_string(token) + "\n";
    token = i;
  }
  CHECK(contains(message(bpe_form(266, doubling + "end\n")), "merge 9 makes a token of 512 bytes"));
  std::string bytes = "starling tokenizer 1\nbpe 256 words\nbytes";
  for (int byte = 0; byte < 256; ++byte) bytes += " " + std::to_string(byte / 2);
  CHECK(contains(message(bytes + "\nend\n"), "names the token 0 twice; every byte has its own"));
}

TEST_CASE("pairs are joined in the order of the merges, all occurrences of one before those it creates") {
  // b+c first, although a+b is possible; then the new token is joined further.
  const auto tokenizer = parse_tokenizer(bpe_form(260, "98 99\n97 98\n97 256\n258 258\nend\n"));
  REQUIRE(tokenizer.ok());
  CHECK(*(*tokenizer)->encode("abcabcabab") == Tokens{259, 257, 257});
  // "aaaaa": pairs from the left.
  const auto same = parse_tokenizer(bpe_form(257, "97 97\nend\n"));
  CHECK(*(*same)->encode("aaaaa") == Tokens{256, 256, 97});
}

}  // namespace
}  // namespace starling::datasets
