#include "datasets/readers/text_files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>

#include "datasets/catalogue.h"
#include "datasets/info.h"
#include "tests/datasets/text_helpers.h"

namespace starling::datasets {
namespace {

std::string error_of(const std::string& name, const std::string& root = "") {
  const auto pair = load(name, root);
  REQUIRE_FALSE(pair.ok());
  CHECK_FALSE(contains(pair.error().message, "\n"));
  return pair.error().message;
}

DataPair loaded(const std::string& name, const std::string& root = "") {
  auto pair = load(name, root);
  INFO((pair ? "" : pair.error().message));
  REQUIRE(pair.ok());
  CHECK(pair->name == data_name(name));
  return std::move(*pair);
}

std::string decoded(const DataPair& pair, const Dataset& part) { return pair.tokenizer->decode(part.tokens); }

TEST_CASE("a text is divided like nanoGPT's: nine tenths of its characters, rounded down, are for training") {
  TemporaryFolder folder;
  // As many characters as tiny Shakespeare has, of 65 different ones.
  std::string text;
  for (std::size_t i = 0; i < 1'115'394; ++i) text += static_cast<char>('0' + i % 65);
  const DataPair pair = loaded(folder.write("input.txt", bytes_in(text)));
  CHECK(pair.train.tokens.size() == 1'003'854);
  CHECK(pair.test.tokens.size() == 111'540);
  CHECK(pair.train.classes == 65);
  CHECK(pair.test.classes == 65);
  CHECK(decoded(pair, pair.train) + decoded(pair, pair.test) == text);
  CHECK(pair.train.is_text());
  CHECK(pair.train.documents.empty());
  CHECK(pair.train.size() == 0);  // no context yet
  CHECK(pair.train.shape == ImageShape{0, 1, 1});
  CHECK(pair.train.normalization.empty());
  CHECK(pair.train.memory_bytes() == 2 * 1'003'854);
}

TEST_CASE("the division counts characters, not bytes, and the vocabulary has those of both parts") {
  TemporaryFolder folder;
  const DataPair pair = loaded(folder.write("accents.txt", bytes_in(repeated("é", 18) + "xy")));
  CHECK(decoded(pair, pair.train) == repeated("é", 18));
  CHECK(decoded(pair, pair.test) == "xy");
  CHECK(pair.train.classes == 3);
  CHECK(pair.tokenizer->kind() == "characters");
}

TEST_CASE("a byte-order mark is no character of the text") {
  TemporaryFolder folder;
  const DataPair pair = loaded(folder.write("notepad.txt", bytes_in("\xef\xbb\xbf" + repeated("ab", 20))));
  CHECK(decoded(pair, pair.train) + decoded(pair, pair.test) == repeated("ab", 20));
  CHECK(pair.train.classes == 2);
}

TEST_CASE("the option selects characters, bytes or a tokenizer, and gzipped files are equal to plain ones") {
  TemporaryFolder root;
  const std::string text = repeated("the thé. ", 10);
  root.write("book.txt", bytes_in(text));
  root.write_gzip("zipped.text.gz", bytes_in(text));
  root.write("own.txt", bytes_in("starling tokenizer 1\ncharacters 20 2e 65 68 74 e9\n"));
  CHECK(loaded("book.txt", root.path()).train.classes == 6);
  CHECK(loaded("book.txt:tokens=characters", root.path()).name == "book.txt");
  const DataPair bytes = loaded("book.txt:tokens=bytes", root.path());
  CHECK(bytes.train.classes == 256);
  CHECK(bytes.train.tokens.size() == 90);  // 81 characters, 9 of two bytes
  CHECK(loaded("zipped.text", root.path()).train.tokens == loaded("book.txt", root.path()).train.tokens);
  CHECK(loaded(root.path("zipped.text.gz")).name == "zipped.text");
  const DataPair own = loaded("book.txt:tokens=own.txt", root.path());
  CHECK(own.train.classes == 6);
  CHECK(own.train.tokens[0] == 4);
  CHECK(loaded(root.path("book.txt") + ":tokens=" + root.path("own.txt")).name == "book.txt:tokens=own.txt");
  for (const char* option : {":", ":tokens", ":tokens=", ":size=3"})
    CHECK(contains(error_of(root.path("book.txt") + option), "as in 'book.txt:tokens=bytes'"));
  CHECK(contains(error_of(root.path("book.txt") + ":label=1"), "do not take the option :label="));
  CHECK(contains(error_of(root.path("book.txt") + ":tokens=gone.txt"), "'gone.txt' was not found"));
  CHECK(
      contains(error_of(root.path("book.txt") + ":tokens=" + root.path("book.txt")), "this is no tokenizer"));
  root.write("few.csv", bytes_in("1,0\n"));
  CHECK(contains(error_of(root.path("few.csv") + ":tokens=bytes"), "do not take the option :tokens="));
}

TEST_CASE("a text that another peer names leads to a tokenizer in the data root and never to another one") {
  TemporaryFolder root;
  root.write("book.txt", bytes_in(repeated("abc", 20)));
  root.write("own.txt", bytes_in("starling tokenizer 1\ncharacters 61-63\n"));
  for (const char* name : {"book.txt", "book.txt:tokens=bytes", "book.txt:tokens=own.txt"})
    CHECK(load_shared(name, root.path()).ok());
  for (const std::string name : {"book.txt:tokens=gone.txt", "book.txt:tokens=.own.txt"}) {
    const auto pair = load_shared(name, root.path());
    REQUIRE_FALSE(pair.ok());
    CHECK(contains(pair.error().message,
                   "is divided by the tokenizer '" + name.substr(16) + "', and the folder"));
  }
  CHECK(contains(load_shared("book.txt:tokens=" + root.path("own.txt"), root.path()).error().message,
                 "which is a path"));
}

TEST_CASE("a tokenizer that is given divides a text instead of the one that its name selects") {
  TemporaryFolder root;
  root.write("book.txt", bytes_in(repeated("abc", 20)));
  root.write("odd.txt", bytes_in(repeated("abz", 20)));
  const auto given = text::parse_tokenizer("starling tokenizer 1\ncharacters 61-63 78\n");
  REQUIRE(given.ok());
  for (const char* name : {"book.txt", "book.txt:tokens=bytes", "book.txt:tokens=gone.txt"}) {
    const auto pair = load_shared(name, root.path(), {*given});
    REQUIRE(pair.ok());
    CHECK(pair->train.classes == 4);
    CHECK(pair->tokenizer == *given);
    CHECK(pair->characters_per_token() == 1.0);
    CHECK(pair->tokenizer_text() == (*given)->text());
  }
  CHECK(contains(load(root.path("odd.txt"), "", {*given}).error().message, "'z' (U+007A)"));
  root.write("tokens.bin", {0, 0, 3, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 1, 0, 2, 0, 0, 0,
                            0, 0, 3, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 1, 0, 2, 0, 0, 0});
  const auto tokens = load(root.path("tokens.bin") + ":width=16", "", {*given});
  REQUIRE(tokens.ok());
  CHECK(tokens->train.classes == 4);
  CHECK(contains(load(root.path("tokens.bin") + ":tokens=bytes:width=16", "", {*given}).error().message,
                 "are of another tokenizer than the network's"));
  CHECK_FALSE(DataPair{}.characters_per_token());
  CHECK(load(root.path("book.txt") + ":tokens=bytes", "")->characters_per_token() == 1.0);
}

TEST_CASE("a folder has its parts under their usual names, else documents") {
  TemporaryFolder folder;
  folder.write("train.txt", bytes_in("aaaa"));
  folder.write("notes.txt", bytes_in("zzzz"));
  folder.write("val.txt", bytes_in("bbb"));
  DataPair pair = loaded(folder.path());
  CHECK(decoded(pair, pair.train) == "aaaa");
  CHECK(decoded(pair, pair.test) == "bbb");
  folder.write_gzip("test.txt.gz", bytes_in("cc"));
  pair = loaded(folder.path());
  CHECK(decoded(pair, pair.test) == "cc");
  CHECK(pair.train.classes == 2);
}

TEST_CASE(
    "no document of a folder vanishes: endings in capitals are read, and links that lead nowhere refused") {
  TemporaryFolder folder;
  for (int i = 0; i < 12; ++i)
    folder.write(std::to_string(10 + i) + (i % 2 == 0 ? ".txt" : ".TXT"), bytes_in("some words"));
  CHECK(loaded(folder.path()).train.documents.size() == 10);
  std::filesystem::create_directory(folder.path("13.txt"));  // a folder is none
  CHECK(loaded(folder.path()).train.documents.size() == 10);
  std::filesystem::create_symlink("/nonexistent/x.txt", folder.path("99.txt"));
  const auto pair = load(folder.path(), "");
  REQUIRE_FALSE(pair.ok());
  CHECK(contains(pair.error().message, "99.txt' was not found"));
}

TEST_CASE("a text or tokens that are too long are refused by the length of the file, before they are read") {
  TemporaryFolder folder;
  constexpr std::uintmax_t kBytes = std::uintmax_t{100} << 30;  // sparse
  for (const auto& [name, why] :
       {std::pair("long.txt", "' makes the text longer than the 4294967295 bytes"),
        std::pair("long.bin", "' has 53687091200 tokens, more than the 4294967295")}) {
    folder.write(name, FileBytes(2000, 'a'));
    std::filesystem::resize_file(folder.path(name), kBytes);
    const auto pair = load(folder.path(name), "");
    REQUIRE_FALSE(pair.ok());
    CHECK(contains(pair.error().message, std::string(name) + why));
  }
}

TEST_CASE("a folder that cannot be read is an error with the reason") {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("closed"));
  folder.write("closed/a.txt", bytes_in("some words"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // root may read everything
    std::filesystem::permissions(folder.path("closed"), std::filesystem::perms::none);
    constexpr uid_t kNobody = 65'534;
    if (::geteuid() == 0 &&
        (::chmod(folder.path().c_str(), 0755) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0))
      ::_exit(2);
    const auto pair = load(folder.path("closed"), "");
    ::_exit(!pair.ok() && contains(pair.error().message, "closed' cannot be read: Permission denied") ? 0
                                                                                                      : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  std::filesystem::permissions(folder.path("closed"), std::filesystem::perms::owner_all);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE(
    "of ten documents or more the last tenth is for testing, of fewer the last tenth of the characters") {
  TemporaryFolder folder;
  std::string whole;
  for (int i = 0; i < 9; ++i) {
    const std::string text = repeated(std::string(1, static_cast<char>('a' + i)), 5);
    folder.write("d" + std::to_string(i) + ".txt", bytes_in(text));
    whole += text;
  }
  folder.write("tokenizer.txt", bytes_in("not a document"));
  folder.write("notes.md", bytes_in("not a document"));
  DataPair pair = loaded(folder.path());
  CHECK(decoded(pair, pair.train) == whole.substr(0, 40));
  CHECK(decoded(pair, pair.test) == whole.substr(40));
  CHECK(pair.train.documents == std::vector<std::uint32_t>{0, 5, 10, 15, 20, 25, 30, 35});
  CHECK(pair.test.documents.empty());
  folder.write("d9.txt", bytes_in("jj"));
  pair = loaded(folder.path());
  CHECK(decoded(pair, pair.train) == whole);
  CHECK(decoded(pair, pair.test) == "jj");
  CHECK(pair.train.documents.size() == 9);
  folder.write("d8.txt", bytes_in(repeated("i", 500)));
  std::filesystem::remove(folder.path("d9.txt"));
  pair = loaded(folder.path());  // 540 characters
  CHECK(pair.train.tokens.size() == 486);
  CHECK(pair.train.documents.size() == 9);
  CHECK(decoded(pair, pair.test) == repeated("i", 54));
}

TEST_CASE("WikiText is read from its usual files, an article per document") {
  TemporaryFolder root;
  std::filesystem::create_directory(root.path("wikitext-2"));
  const std::string one = " \n = Ring = \n \n A ring . \n = = Use = = \n Text . \n",
                    two = " = Other Thing = \n More . \n";
  root.write("wikitext-2/wiki.train.tokens", bytes_in(one + two));
  root.write("wikitext-2/wiki.valid.tokens", bytes_in("no heading"));
  DataPair pair = loaded("wikitext-2", root.path());
  CHECK(decoded(pair, pair.train) == one + two);
  CHECK(pair.train.documents == std::vector<std::uint32_t>{0, static_cast<std::uint32_t>(one.size())});
  CHECK(decoded(pair, pair.test) == "no heading");
  root.write("wikitext-2/wiki.test.tokens", bytes_in(two));
  CHECK(loaded("wikitext-2", root.path()).test.documents.empty());
  const std::string missing = error_of("wikitext-2", "/nowhere");
  CHECK(contains(missing,
                 "'wikitext-2' is not on this machine: it is the folder 'wikitext-2' in $STARLING_DATA"));
  CHECK_FALSE(contains(missing, "data fetch"));
}

TEST_CASE("shakespeare is found in either of its folders") {
  TemporaryFolder root;
  std::filesystem::create_directory(root.path("tinyshakespeare"));
  root.write("tinyshakespeare/input.txt", bytes_in(repeated("To be. ", 10)));
  CHECK(loaded("shakespeare", root.path()).name == "shakespeare");
  CHECK(loaded("shakespeare:tokens=bytes", root.path()).name == "shakespeare:tokens=bytes");
  CHECK(load_shared("shakespeare", root.path()).ok());
  CHECK(contains(error_of("shakespeare"), "`starling data fetch shakespeare --into DIR` downloads it"));
}

TEST_CASE("an empty, short or wrongly encoded text is an error with file and place") {
  TemporaryFolder folder;
  CHECK(contains(error_of(folder.write("empty.txt", {})), "empty.txt' is empty; a text is needed"));
  CHECK(contains(error_of(folder.write("one.txt", {'a'})), "is too short: its training part has no token"));
  CHECK(contains(error_of(folder.write("same.txt", bytes_in(repeated("a", 40)))),
                 "same.txt' has only one token, again and again: there is nothing to learn"));
  CHECK(contains(error_of(folder.write("short.txt", bytes_in("0123456789"))),
                 "short.txt' is too short: its test part has 1 token, and at least 2 are needed"));
  CHECK(contains(error_of(folder.write("latin.txt", bytes_in("caf\xe9 au lait"))),
                 "latin.txt', byte 3 is not part of UTF-8"));
  CHECK(contains(error_of(folder.write("utf16.txt", bytes_in("\xff\xfeh"))), "byte 0 is not part of UTF-8"));
  CHECK(contains(error_of(folder.path("gone.txt")), "gone.txt' was not found"));
  CHECK(contains(error_of(folder.write("own.txt", bytes_in("starling tokenizer 1\nbytes\n"))),
                 "own.txt' is a tokenizer and no text; a text takes it as its option, as in "
                 "'book.txt:tokens=own.txt'"));
  folder.write("ab.txt", bytes_in("starling tokenizer 1\ncharacters 61-62\n"));
  const std::string other = folder.write("other.txt", bytes_in(repeated("ab", 20) + "x"));
  CHECK(contains(error_of(other + ":tokens=" + folder.path("ab.txt")),
                 "other.txt', counted from byte 36: the character 'x' (U+0078) at byte 4 is none of the 2"));
}

TEST_CASE("windows of a text lie side by side, and labels are the tokens one later") {
  Dataset set;
  set.classes = 65'536;
  for (std::uint16_t i = 0; i < 11; ++i) set.tokens.push_back(static_cast<std::uint16_t>(65'000 + i));
  CHECK(set.labels_per_sample() == 0);
  set.set_context(4);
  CHECK(set.size() == 2);
  CHECK(set.labels_per_sample() == 4);
  CHECK(set.shape == ImageShape{4, 1, 1});
  std::array<float, 8> inputs{};
  std::array<std::int32_t, 8> labels{};
  const std::array<std::uint32_t, 2> indices = {1, 0}, shifts = {9, 3};
  set.gather(indices, inputs.data(), labels.data());
  CHECK(inputs == std::array<float, 8>{65004, 65005, 65006, 65007, 65000, 65001, 65002, 65003});
  CHECK(labels == std::array<std::int32_t, 8>{65005, 65006, 65007, 65008, 65001, 65002, 65003, 65004});
  set.gather_shifted(indices, shifts, inputs.data(), labels.data());
  CHECK(inputs == std::array<float, 8>{65006, 65007, 65008, 65009, 65003, 65004, 65005, 65006});
  CHECK(labels == std::array<std::int32_t, 8>{65007, 65008, 65009, 65010, 65004, 65005, 65006, 65007});
  set.set_context(4, true);  // 11 tokens: 10 labels
  CHECK(set.size() == 3);
  CHECK(set.labels_of(0, 3) == 10);
  CHECK(set.labels_of(1, 1) == 4);
  CHECK(set.labels_of(1, 2) == 6);
  const std::array<std::uint32_t, 2> ends = {1, 2};
  set.gather(ends, inputs.data(), labels.data());
  CHECK(inputs == std::array<float, 8>{65004, 65005, 65006, 65007, 65008, 65009, 0, 0});
  CHECK(labels == std::array<std::int32_t, 8>{65005, 65006, 65007, 65008, 65009, 65010, 0, 0});
  set.set_context(5, true);
  CHECK(set.size() == 2);
  CHECK(set.labels_of(0, 2) == 10);
  set.set_context(10);
  CHECK(set.size() == 1);
  set.set_context(11);
  CHECK(set.size() == 0);
}

TEST_CASE("a context that is longer than a part of the text is an error") {
  TemporaryFolder folder;
  const DataPair pair = loaded(folder.write("book.txt", bytes_in(repeated("ab", 100))));
  CHECK(check_context(pair, 19).ok());
  CHECK(
      check_context(pair, 20).error().message ==
      "the model reads 20 tokens at a time, but the test part of 'book.txt' has only 20; it needs 21: use a "
      "longer text or a shorter context");
  CHECK(contains(check_context(pair, 4'000'000'000).error().message,
                 "the training part of 'book.txt' has only 180"));
  CHECK_FALSE(check_context(pair, 0).ok());
}

TEST_CASE("a text is described by its characters, tokens, documents and first line") {
  TemporaryFolder folder;
  const DataPair pair =
      loaded(folder.write("book.txt", bytes_in("\n Thé\x07 end\n" + repeated("é\n", 100))) + ":tokens=bytes");
  const Info info = info_of(pair);
  REQUIRE(info.text.has_value());
  CHECK(info.classes == 256);
  CHECK(info.text->train.characters == 189);
  CHECK(info.text->train.tokens == 279);
  CHECK(info.text->train.documents == 1);
  CHECK(info.text->test.characters == 22);
  CHECK(info.text->tokenizer == "bytes");
  CHECK(info.text->first_line == "Thé? end");
  CHECK(info.memory_bytes == 2 * 312);
  CHECK(size_text(pair) == "279 + 33 tokens, a vocabulary of 256");
}

}  // namespace
}  // namespace starling::datasets
