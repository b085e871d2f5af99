// GCC 12 falsely reports an uninitialized member inside <regex> when sanitizers prevent inlining.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "datasets/text/words.h"

#include <algorithm>
#include <regex>

#include "datasets/text/unicode.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text::end_of_word(text, begin);
    REQUIRE(end > begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST_CASE("ASCII text is divided as GPT-2's pattern divides it") {
  const std::regex pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+)");
  constexpr std::string_view kCharacters = "abstrevml d'  \n\t0123,.-";
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::uint64_t n = random.below(24); n > 0; --n)
      text += kCharacters[random.below(kCharacters.size())];
    std::vector<std::string> expected;
    for (auto word = std::sregex_iterator(text.begin(), text.end(), pattern); word != std::sregex_iterator();
         ++word)
      expected.push_back(word->str());
    CAPTURE(text);
    REQUIRE(words_of(text) == expected);
  }
}

TEST_CASE("letters, numbers and spaces of all of Unicode are divided like those of ASCII") {
  using Words = std::vector<std::string>;
  CHECK(words_of("Hello, wörld! 123 ½ 你好 мир's") ==
        Words{"Hello", ",", " wörld", "!", " 123", " ½", " 你好", " мир", "'s"});
  CHECK(words_of("a\u00a0b\u3000\u2028c 😀😀x") ==
        Words{"a", "\u00a0", "b", "\u3000", "\u2028", "c", " 😀😀", "x"});
  CHECK(words_of("x  \n y \n") == Words{"x", "  \n", " y", " \n"});
  CHECK(words_of("एक ①٣") == Words{"एक", " ①٣"});
  CHECK(words_of("e\u0301") == Words{"e", "\u0301"});  // a combining mark is no letter
}

TEST_CASE("bytes that are not UTF-8 count as punctuation") {
  CHECK(words_of("a \xff\xfe!b\xe4\xbd") == std::vector<std::string>{"a", " \xff\xfe!", "b", "\xe4\xbd"});
}

TEST_CASE("characters have the classes of Unicode") {
  using text::CharacterClass;
  using text::class_of;
  for (const char32_t c :
       {U'a', U'Z', U'ª', U'é', U'Ω', U'ж', U'א', U'ع', U'あ', U'한', U'𝒜', U'𠀀', U'ǅ', U'ʰ'})
    CHECK(class_of(c) == CharacterClass::letter);
  const auto all = [](std::u32string_view characters, CharacterClass kind) {
    return std::ranges::all_of(characters, [&](char32_t c) { return class_of(c) == kind; });
  };
  CHECK(all(U"aZªéΩжאعあ한𝒜𠀀ǅʰ", CharacterClass::letter));
  CHECK(all(U"09²¼٣Ⅷ〇㊿𝟗", CharacterClass::number));
  CHECK(all(U" \t\n\r\u000b\u0085\u00a0\u1680\u2009\u205f\u3000", CharacterClass::space));
  CHECK(all(U"_-'\u001f\u200b\ufeff\u0301€😀\U0010ffff", CharacterClass::other));
  CHECK(class_of(0) == CharacterClass::other);
  CHECK(all(U"\u1c89\ua7cb\U0001e5d0\U0002ebf0", CharacterClass::letter));  // since Unicode 15.1 and 16
  CHECK(all(U"\U00010d40\U0001ccf0", CharacterClass::number));
}

}  // namespace
}  // namespace starling::datasets
