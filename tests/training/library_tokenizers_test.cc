// Tokenizers, compared with the libraries tokenizers and tiktoken.
#include <array>
#include <cstdlib>

#include "base/random.h"
#include "datasets/text/bpe.h"
#include "datasets/text/bpe_training.h"
#include "datasets/text/bytes.h"
#include "datasets/text/characters.h"
#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/learning/export/tokenizer_json.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

namespace text = datasets::text;

std::string drawn_text(Random& random) {
  constexpr std::array<std::string_view, 34> kPieces = {"the",
                                                        "then",
                                                        "an",
                                                        "in",
                                                        " ",
                                                        "  ",
                                                        "\n",
                                                        "\t",
                                                        "'s",
                                                        "'ll",
                                                        "'",
                                                        "1",
                                                        "42",
                                                        ".",
                                                        "!?",
                                                        "é",
                                                        "ß1",
                                                        "你",
                                                        "好",
                                                        "½",
                                                        "😀",
                                                        "_",
                                                        "ab",
                                                        "\xc2\xa0",
                                                        "</s>",
                                                        "<s>",
                                                        "[PAD]",
                                                        "<|im_end|>",
                                                        "<|endoftext|>",
                                                        "<|im",
                                                        "[PA",
                                                        "</",
                                                        "|>",
                                                        "\u0301"};
  std::string drawn;
  for (std::uint64_t i = random.below(60); i > 0; --i) drawn += kPieces[random.below(kPieces.size())];
  return drawn;
}

// The merges of a trained encoding, with special tokens behind them.
text::AnyTokenizer with_specials(const text::Tokenizer& trained, bool in_words) {
  text::BpeRules rules = *text::rules_of(trained);
  rules.in_words = in_words;
  for (const char* name : {"<|endoftext|>", "<|im_end|>", "</s>", "<s>", "[PAD]"})
    rules.others.push_back({static_cast<std::uint16_t>(rules.size++), name, true});
  return std::move(text::make_bpe(std::move(rules))).value();
}

void write_case(const TemporaryFolder& folder, const std::string& name, const text::Tokenizer& tokenizer,
                const std::vector<std::string>& texts) {
  const auto file = tokenizer_json(tokenizer);
  INFO((file.ok() ? "" : file.error().message));
  REQUIRE(file.ok());
  folder.write(name + ".json", *file);
  std::string cases;
  for (const std::string& one : texts) {
    const auto tokens = tokenizer.encode(one);
    REQUIRE(tokens.ok());
    CHECK(tokenizer.decode(*tokens) == one);
    cases += to_line({{"text", one}, {"tokens", *tokens}});
  }
  folder.write(name + ".cases", cases);
}

}  // namespace

TEST_CASE("tokenizers and tiktoken divide 200 drawn texts into the same tokens, special ones included") {
  const TemporaryFolder folder;
  Random random(48);
  std::vector<std::string> texts;
  std::string all;
  for (int i = 0; i < 200; ++i) all += texts.emplace_back(drawn_text(random));
  const std::array<std::string_view, 1> learned = {all};
  const auto trained = text::train_bpe(learned, {.size = 400});
  REQUIRE(trained.ok());
  const auto characters = text::make_characters(learned);
  REQUIRE(characters.ok());
  write_case(folder, "bytes", *text::make_bytes(), texts);
  write_case(folder, "characters", **characters, texts);
  write_case(folder, "words", *with_specials(**trained, true), texts);
  write_case(folder, "anywhere", *with_specials(**trained, false), texts);
  const std::string command = "python3 " STARLING_SOURCE_DIR "/tests/training/run_tokenizers.py " +
                              folder.path() + " > " + folder.file("said") + " 2>&1";
  const int status = std::system(command.c_str());
  constexpr int kMissing = 77 << 8;
  if (status == kMissing) {
    WARN("skipped: " << contents(folder.file("said")));
    return;
  }
  INFO(contents(folder.file("said")));
  CHECK(status == 0);
}

}  // namespace starling::training
