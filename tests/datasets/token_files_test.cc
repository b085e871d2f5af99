#include "datasets/readers/token_files.h"

#include <filesystem>

#include "datasets/catalogue.h"
#include "datasets/info.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

std::string token_error(const std::string& name) {
  const auto pair = load(name, "");
  REQUIRE_FALSE(pair.ok());
  CHECK_FALSE(contains(pair.error().message, "\n"));
  return pair.error().message;
}

constexpr std::uint32_t kMagicOfLlmC = 20240520;

TEST_CASE("tokens are read as nanoGPT writes them, with GPT-2's vocabulary") {
  TemporaryFolder folder;
  Tokens tokens;
  for (std::uint16_t i = 0; i < 95; ++i) tokens.push_back(static_cast<std::uint16_t>(50'256 - i));
  for (const std::string& path : {folder.write("all.bin", token_bytes(tokens)),
                                  folder.write_gzip("zipped.bin.gz", token_bytes(tokens))}) {
    const auto pair = load(path, "");
    REQUIRE(pair.ok());
    CHECK(pair->name == (contains(path, "zipped") ? "zipped.bin" : "all.bin"));
    CHECK(pair->tokenizer == nullptr);
    CHECK(pair->train.classes == 50'257);
    CHECK(pair->test.classes == 50'257);
    CHECK(pair->train.tokens == Tokens(tokens.begin(), tokens.begin() + 85));
    CHECK(pair->test.tokens == Tokens(tokens.begin() + 85, tokens.end()));
    CHECK_FALSE(info_of(*pair).text->train.characters.has_value());
  }
}

TEST_CASE("the vocabulary of nanoGPT's meta.pkl is taken, in each form in which Python writes its size") {
  TemporaryFolder folder;
  folder.write("train.bin", token_bytes(Tokens(70, 64)));
  folder.write("val.bin", token_bytes(Tokens(70, 3)));
  // pickle.dumps({"vocab_size": N}, protocol) for protocols 4, 3 and 2.
  for (const auto& [pickle, size] : std::vector<std::pair<std::string, int>>{
           {std::string("\x80\x04\x95\x11\0\0\0\0\0\0\0}\x94\x8c\nvocab_size\x94KAs.", 28), 65},
           {std::string("\x80\x03}q\0X\n\0\0\0vocab_sizeq\x01M\xe8\x03s.", 26), 1000},
           {std::string("\x80\x02}q\0X\n\0\0\0vocab_sizeq\x01J\0\0\x01\0s.", 28), 65536}}) {
    folder.write("meta.pkl", bytes_in(pickle));
    const auto pair = load(folder.path(), "");
    INFO((pair.ok() ? "" : pair.error().message));
    REQUIRE(pair.ok());
    CHECK(pair->train.classes == size);
    REQUIRE(pair->origin.decisions.size() == 2);
    CHECK(contains(pair->origin.decisions[1], std::to_string(size) + " tokens that meta.pkl states"));
  }
  folder.write("meta.pkl", bytes_in(std::string("\x80\x02}q\0X\n\0\0\0vocab_sizeq\x01K\x0as.", 26)));
  CHECK(
      contains(token_error(folder.path()), "the token 64 is outside the vocabulary of 10 tokens; name the"));
  folder.write("meta.pkl", bytes_in("nothing"));
  CHECK(contains(token_error(folder.path()), "meta.pkl' states no vocabulary that can be read"));
  folder.write("tokenizer.txt", bytes_in("starling tokenizer 1\nbytes\n"));
  CHECK(load(folder.path(), "")->train.classes == 256);
}

TEST_CASE("a folder with train.bin and val.bin is a text, with the header of llm.c or without") {
  TemporaryFolder folder;
  FileBytes train = token_header(kMagicOfLlmC, 1, 3);
  const FileBytes tokens = token_bytes({7, 8, 9});
  train.insert(train.end(), tokens.begin(), tokens.end());
  folder.write("train.bin", train);
  folder.write("val.bin", token_bytes({1, 2}));
  const auto pair = load(folder.path() + ":width=16", "");
  REQUIRE(pair.ok());
  CHECK(pair->train.tokens == Tokens{7, 8, 9});
  CHECK(pair->test.tokens == Tokens{1, 2});
}

TEST_CASE("train.bin and test.bin are CIFAR-100's, and a text with a tokenizer beside them") {
  TemporaryFolder folder;
  folder.write("train.bin", token_bytes({0, 1, 2, 1}));
  folder.write("test.bin", token_bytes({2, 2}));
  CHECK(contains(token_error(folder.path()), "CIFAR-100"));
  folder.write("tokenizer.txt", bytes_in("starling tokenizer 1\ncharacters 61-63\n"));
  const auto pair = load(folder.path() + ":width=16", "");
  REQUIRE(pair.ok());
  CHECK(pair->train.classes == 3);
  CHECK(pair->tokenizer->decode(pair->train.tokens) == "abcb");
}

TEST_CASE("a single file takes the tokenizer beside it, or that of the option") {
  TemporaryFolder folder;
  const std::string path = folder.write("all.bin", token_bytes(Tokens(100, 255)));
  CHECK(load(path + ":tokens=bytes", "")->train.classes == 256);
  folder.write("vocab.json", bytes_in(gpt2_vocabulary(kGpt2Results)));
  folder.write("merges.txt", bytes_in(kGpt2Merges));
  CHECK(load(path, "")->train.classes == 263);
  folder.write("two.txt", bytes_in("starling tokenizer 1\ncharacters 61-62\n"));
  CHECK(
      contains(token_error(path + ":tokens=" + folder.path("two.txt")),
               "all.bin', byte 0: the token 255 is outside the vocabulary of 2 tokens; name the tokenizer"));
  CHECK(contains(token_error(path + ":tokens=characters"), "':tokens=characters' has no effect"));
}

TEST_CASE("a malformed file of tokens is an error with its offset") {
  TemporaryFolder folder;
  const auto error = [&](const FileBytes& bytes) { return token_error(folder.write("some.bin", bytes)); };
  CHECK(contains(error({}), "some.bin' is empty; tokens of two bytes each are needed"));
  CHECK(contains(error({1, 0, 2}),
                 "some.bin' has 3 bytes, which is no whole number of tokens of 2 bytes each"));
  CHECK(contains(token_error(folder.write("some.bin", token_bytes({1, 2})) + ":width=16"),
                 "is too short: its training part has 1 token"));
  CHECK(contains(error(token_bytes({1, 2})),
                 "and it has fewer than 64 numbers of 16 bits, too few to show it"));
  Tokens tokens(5000, 1);
  tokens[4321] = 50'257;
  CHECK(contains(error(token_bytes(tokens)),
                 "some.bin', byte 8642: the token 50257 is outside the vocabulary of 50257 tokens, GPT-2's"));
  const auto with_header = [&](std::uint32_t version, std::uint32_t count, const FileBytes& content) {
    FileBytes bytes = token_header(kMagicOfLlmC, version, count);
    bytes.insert(bytes.end(), content.begin(), content.end());
    return bytes;
  };
  CHECK(load(folder.write("good.bin", with_header(1, 5000, token_bytes(Tokens(5000, 1)))), "").ok());
  CHECK(contains(error(with_header(1, 5000, token_bytes(tokens))), "byte 9666: the token 50257"));
  CHECK(contains(error(with_header(2, 5000, token_bytes(tokens))),
                 "has a header of the version 2, and only version 1"));
  CHECK(contains(error(with_header(1, 5001, token_bytes(tokens))),
                 "has 5000 tokens after its header, which says 5001; it is truncated"));
  CHECK(contains(error(with_header(1, 1, {1, 0, 2})), "has 1027 bytes, which is no whole number"));
  FileBytes cut = token_header(kMagicOfLlmC, 1, 1);
  cut.resize(100);
  CHECK(contains(error(cut), "has 100 bytes, fewer than the 1024 of the header"));
  folder.write("val.bin", token_bytes({1, 2}));
  std::filesystem::remove(folder.path("train.bin"));
  folder.write("tokenizer.txt", bytes_in("starling tokenizer 1\nbytes\n"));
  CHECK(contains(read_token_folder(folder.path()).error().message, "has no file train.bin, plain or .gz"));
}

TEST_CASE("a file of tokens that is read in several pieces is complete") {
  TemporaryFolder folder;
  Tokens tokens;
  for (std::size_t i = 0; i < 1'300'001; ++i) tokens.push_back(static_cast<std::uint16_t>(i % 50'000));
  FileBytes bytes = token_header(kMagicOfLlmC, 1, 1'300'001);
  const FileBytes content = token_bytes(tokens);
  bytes.insert(bytes.end(), content.begin(), content.end());
  const auto pair = load(folder.write("large.bin", bytes), "");
  REQUIRE(pair.ok());
  CHECK(pair->train.tokens == Tokens(tokens.begin(), tokens.begin() + 1'170'000));
  CHECK(pair->test.tokens.size() == 130'001);
}

}  // namespace
}  // namespace starling::datasets
