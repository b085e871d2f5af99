#include "datasets/readers/token_width.h"

#include <cmath>
#include <cstring>

#include "datasets/dataset.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

// Token numbers as a byte-pair encoding has them: number N about 1 / (N + 1) as frequent as the first.
std::vector<std::uint32_t> frequent_first(Random random, std::size_t count, double vocabulary) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::uint32_t>(std::pow(vocabulary, random.uniform()) - 1));
  return ids;
}

std::vector<std::uint32_t> evenly(Random random, std::size_t count, std::uint32_t first,
                                  std::uint32_t kinds) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(first + static_cast<std::uint32_t>(random.below(kinds)));
  return ids;
}

// The numbers with this many bytes each, as 16-bit ones.
Tokens as_16_bits(const std::vector<std::uint32_t>& ids, std::size_t width, bool big_endian = false) {
  FileBytes bytes;
  for (const std::uint32_t id : ids)
    for (std::size_t b = 0; b < width; ++b) {
      const std::size_t place = big_endian ? width - 1 - b : b;
      bytes.push_back(place < 4 ? static_cast<std::uint8_t>(id >> 8 * place) : 0);
    }
  Tokens numbers(bytes.size() / 2);
  std::memcpy(numbers.data(), bytes.data(), 2 * numbers.size());
  return numbers;
}

TEST_CASE("16-bit tokens of characters, bytes and byte-pair encodings are not doubted") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Random random(seed);
    for (const std::size_t count : {64UL, 300UL, 20'000UL}) {
      CAPTURE(seed, count);
      for (const double vocabulary : {1000.0, 32'000.0, 50'257.0, 65'536.0})
        CHECK(doubt_of_width(as_16_bits(frequent_first(random, count, vocabulary), 2)).empty());
      for (const auto& [first, kinds] : {std::pair{0U, 4U}, {0U, 65U}, {32U, 95U}, {0U, 256U}})
        CHECK(doubt_of_width(as_16_bits(evenly(random, count, first, kinds), 2)).empty());
      CHECK((count < 1000 || doubt_of_width(as_16_bits(evenly(random, count, 0, 50'257), 2)).empty()));
    }
  }
}

TEST_CASE("tokens of another width or order of bytes are doubted") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Random random(seed);
    for (const std::size_t count : {100UL, 20'001UL}) {
      CAPTURE(seed, count);
      for (const auto& ids : {frequent_first(random, count, 50'257), frequent_first(random, count, 128'256),
                              evenly(random, count, 0, 4), evenly(random, count, 0, 65)}) {
        for (const std::size_t width : {4UL, 8UL})
          for (const bool big_endian : {false, true}) {
            Tokens numbers = as_16_bits(ids, width, big_endian);
            CHECK(contains(doubt_of_width(numbers), "32 or 64 bits"));
            numbers.pop_back();  // the file is truncated
            CHECK(contains(doubt_of_width(numbers), "32 or 64 bits"));
          }
      }
      for (const auto& ids : {frequent_first(random, count, 50'257), evenly(random, count, 0, 65)})
        CHECK(contains(doubt_of_width(as_16_bits(ids, 2, true)), "in big-endian numbers"));
      if (count < 1000) continue;
      for (const auto& [first, kinds] : {std::pair{0U, 65U}, {32U, 95U}, {0U, 256U}})
        CHECK(contains(doubt_of_width(as_16_bits(evenly(random, count - 1, first, kinds), 1)), "8 bits"));
    }
  }
}

TEST_CASE("the option says how wide the tokens of a file are, and a file that leaves it open is refused") {
  TemporaryFolder folder;
  Random random(1);
  const auto ids = frequent_first(random, 5000, 50'257);
  const Tokens expected(ids.begin(), ids.end()), wide = as_16_bits(ids, 4);
  const std::string narrow_file = folder.write("narrow.bin", token_bytes(expected)),
                    wide_file = folder.write("wide.bin", token_bytes(wide)),
                    long_file = folder.write("long.bin", token_bytes(as_16_bits(ids, 8)));
  const auto refused = load(wide_file, "");
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.error().message, "wide.bin' does not say how wide its numbers are"));
  CHECK(contains(refused.error().message, "wide.bin:width=32' or ':width=16'"));
  const auto read = load(wide_file + ":tokens=bytes:width=32", "");
  CHECK(contains(read.error().message, "outside the vocabulary of 256 tokens"));
  for (const auto& [name, decided] :
       {std::pair{narrow_file, true}, {narrow_file + ":width=16", false}, {wide_file + ":width=32", false}}) {
    CAPTURE(name);
    const auto pair = load(name, "");
    REQUIRE(pair.ok());
    CHECK(pair->train.tokens == Tokens(expected.begin(), expected.begin() + 4500));
    CHECK(pair->test.tokens == Tokens(expected.begin() + 4500, expected.end()));
    CHECK((pair->origin.decisions.front() ==
           "the tokens are numbers of 16 bits, by the distribution of their bytes") == decided);
  }
  CHECK(load(wide_file + ":width=32", "")->name == "wide.bin:width=32");
  CHECK(load(wide_file + ":width=16", "")->train.tokens.size() == 9000);  // as said
  CHECK(contains(load(narrow_file + ":width=32", "").error().message, ", the greatest that is accepted"));
  CHECK(contains(load(long_file + ":width=32", "").error().message, "has numbers of 64 bits, because"));
  for (const char* option : {":width=", ":width=8", ":width=16:width=32", ":width"})
    CHECK(contains(load(wide_file + option, "").error().message, "as in 'train.bin:width=32'"));
  CHECK(contains(load(folder.write("a.txt", {'a', 'b'}) + ":width=16", "").error().message,
                 "do not take the option :width="));
}

TEST_CASE("both parts of a folder of tokens must have the width that is said") {
  TemporaryFolder folder;
  Random random(2);
  const auto ids = frequent_first(random, 3000, 50'257);
  folder.write("train.bin", token_bytes(as_16_bits(ids, 2)));
  folder.write("val.bin", token_bytes(as_16_bits(ids, 4)));
  CHECK(contains(load(folder.path(), "").error().message, "val.bin' does not say how wide"));
  folder.write("train.bin", token_bytes(as_16_bits(ids, 4)));
  CHECK(load(folder.path(), "").error().message.size() > 0);
  const auto pair = load(folder.path() + ":width=32", "");
  REQUIRE(pair.ok());
  CHECK(pair->train.tokens == Tokens(ids.begin(), ids.end()));
}

TEST_CASE("the header of llm.c says the width, and files of other formats are refused by name") {
  TemporaryFolder folder;
  Random random(3);
  const auto ids = frequent_first(random, 3000, 50'257);
  FileBytes wide = token_header(20240801, 7, 3000);
  const FileBytes numbers = token_bytes(as_16_bits(ids, 4));
  wide.insert(wide.end(), numbers.begin(), numbers.end());
  const std::string path = folder.write("wide.bin", wide);
  const auto pair = load(path, "");
  REQUIRE(pair.ok());
  CHECK(pair->train.tokens == Tokens(ids.begin(), ids.begin() + 2700));
  CHECK(load(path + ":width=32", "").ok());
  CHECK(contains(load(path + ":width=16", "").error().message,
                 "has numbers of 32 bits by its header, and the option :width= says 16; omit"));
  CHECK(contains(load(folder.write("v.bin", token_header(20240801, 1, 0)), "").error().message,
                 "has a header of the version 1, and only version 7 is accepted after the number 20240801"));
  for (const auto& [start, name] : std::vector<std::pair<std::string, std::string>>{
           {"\x93NUMPY\x01", "a NumPy array"}, {"PK\x03\x04", "a zip archive"}, {"PAR1", "a Parquet file"}}) {
    FileBytes bytes = bytes_in(start);
    bytes.insert(bytes.end(), numbers.begin(), numbers.end());
    CHECK(contains(load(folder.write("other.bin", bytes) + ":width=16", "").error().message,
                   "other.bin' has no tokens: it is " + name));
  }
}

}  // namespace
}  // namespace starling::datasets
