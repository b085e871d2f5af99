// Texts and tokenizers: described, learned and shown.

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/training/rhyme.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

TEST_CASE("data info describes a text") {
  const TemporaryFolder folder;
  folder.write("rhyme.txt", training::rhyme(10));
  const json info = run_json({"data", "info", folder.file("rhyme.txt"), "--json"});
  CHECK(info.at("name") == "rhyme.txt");
  CHECK(info.at("tokenizer") == "characters");
  CHECK(info.at("vocabulary") == 14);
  CHECK(info.at("train") == json({{"characters", 468}, {"tokens", 468}, {"documents", 1}}));
  CHECK(info.at("test").at("tokens") == 52);
  const Outcome text = run({"data", "info", folder.file("rhyme.txt") + ":tokens=bytes"});
  CHECK(text.exit_code == 0);
  for (const char* part : {"rhyme.txt:tokens=bytes: a text\n", "468 characters, 468 tokens, 1 document\n",
                           "256 tokens of the tokenizer 'bytes'", "the cat sat on the mat, and"})
    CHECK(text.out.find(part) != std::string::npos);
}

TEST_CASE("a tokenizer is learned from a text, shown, and used as data's tokens") {
  const TemporaryFolder folder;
  folder.write("rhyme.txt", training::rhyme(50));
  const std::string tokenizer = folder.file("tokenizer.txt");
  const json learned = run_json(
      {"tokenizer", "train", folder.file("rhyme.txt"), "--size", "264", "--out", tokenizer, "--json"});
  CHECK(learned.at("tokens") == 264);
  CHECK(learned.at("bytes_per_token").get<double>() > 1.5);
  const json shown = run_json({"tokenizer", "show", tokenizer, "--text", "the cat", "--json"});
  CHECK(shown.at("kind") == "bpe");
  CHECK(shown.at("tokens") == 264);
  CHECK(shown.at("text").size() < 5);
  const Outcome text = run({"tokenizer", "show", tokenizer, "--text", "the dog\n"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("bpe, 264 tokens, fingerprint ") != std::string::npos);
  CHECK(text.out.find("    111  \"o\"\n    103  \"g\"\n     10  \"\\n\"\n") != std::string::npos);
  CHECK(run({"tokenizer", "show", tokenizer}).out.find("the last tokens:\n") != std::string::npos);
  const json info = run_json({"data", "info", folder.file("rhyme.txt") + ":tokens=" + tokenizer, "--json"});
  CHECK(info.at("name") == "rhyme.txt:tokens=tokenizer.txt");
  CHECK(info.at("vocabulary") == 264);
  // The same text gives the same tokenizer.
  const std::string again = folder.file("again.txt");
  CHECK(run({"tokenizer", "train", folder.file("rhyme.txt"), "--size", "264", "--out", again}).exit_code ==
        0);
  CHECK(run_json({"tokenizer", "show", again, "--json"}).at("fingerprint") == shown.at("fingerprint"));
}

TEST_CASE("wrong input of the tokenizer commands is refused in one line") {
  const TemporaryFolder folder;
  folder.write("rhyme.txt", training::rhyme(2));
  folder.write("latin.txt", "caf\xe9");
  const std::string out = folder.file("out.txt"), text = folder.file("rhyme.txt");
  for (const auto& [words, part] : std::vector<std::pair<Words, std::string>>{
           {{"tokenizer", "train", text, "--size", "256", "--out", out},
            "--size: '256' is not a whole number from 257 to 65536"},
           {{"tokenizer", "train", text, "--size", "x", "--out", out}, "--size: 'x' is not a whole number"},
           {{"tokenizer", "train", text, "--size", "300", "--out", folder.file("")}, "--out: "},
           {{"tokenizer", "train", folder.file("gone.txt"), "--size", "300", "--out", out},
            "gone.txt' was not found"},
           {{"tokenizer", "train", folder.file("latin.txt"), "--size", "300", "--out", out},
            "byte 3 is not part of UTF-8"},
           {{"tokenizer", "show", text}, "this is no tokenizer"},
           {{"evaluate", text, "--data", text, "--model", "softmax"}, "is not a usable safetensors file"},
           {{"simulate", "--data", text}, "it reads text, so its first layer must be an embedding"},
           {{"simulate", "--data", text, "--model", "gpt2", "--optimizer", "sgd"}, "model \"gpt2\": "},
           {{"simulate", "--model", "gpt-tiny", "--optimizer", "sgd"},
            "is for text, but the data has images or vectors; give --data a text, such as shakespeare or "
            "FILE.txt"},
           {{"swarm", "--data", text}, "its first layer must be an embedding"},
           {{"model", "show", "gpt-tiny", "--input", "1x28x28"}, "--input: gpt-tiny is for text"},
           {{"model", "show", "lenet", "--data", text}, "its first layer must be an embedding"}}) {
    const Outcome outcome = run(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace starling::cli_tests
