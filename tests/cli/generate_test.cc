// starling generate: from a file, from a running peer, and wrong input.
#include <signal.h>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/training/rhyme.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

constexpr const char* kSmallNetwork =
    "type = 'gpt'\nlayers = 1\nheads = 2\nfeatures = 16\ncontext = 16\nbias = false\n";

// A network that a short simulation has trained on the rhyme.
class Trained {
 public:
  explicit Trained(const std::string& tokens = "") {
    folder.write("rhyme.txt", training::rhyme(60));
    folder.write("small.toml", kSmallNetwork);
    REQUIRE(run({"simulate", "--peers", "1", "--model", folder.file("small.toml"), "--data",
                 folder.file("rhyme.txt") + tokens, "--steps", "60", "--batch-size", "8", "--optimizer",
                 "adamw", "--learning-rate", "0.01", "--looks", "0", "--out", folder.file("run")})
                .exit_code == 0);
  }
  std::string model() const { return folder.file("run/model.safetensors"); }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("a saved model continues a text, the same one for the same seed") {
  const Trained trained;
  const Words words = {"generate", trained.model(), "--prompt", "the cat", "--tokens", "40", "--seed", "5"};
  const Outcome text = run(words);
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  CHECK(text.out.find("the cat") == 0);
  CHECK(text.out.size() == 7 + 40 + 1);
  CHECK(run(words).out == text.out);
  Words from_folder = words;
  from_folder[1] = trained.folder.file("run");
  CHECK(run(from_folder).out == text.out);
  const json object = run_json({"generate", "--checkpoint", trained.model(), "--prompt", "the cat",
                                "--tokens", "40", "--seed", "5", "--json"});
  CHECK("the cat" + object.at("text").get<std::string>() + "\n" == text.out);
  CHECK(object.at("model") == "small");
  CHECK(object.at("tokens") == 40);
  CHECK(object.at("tokens_per_second").get<double>() > 0);
  CHECK(run({"generate", trained.model(), "--temperature", "0", "--seed", "1"}).out ==
        run({"generate", trained.model(), "--temperature", "0", "--seed", "2"}).out);

  const std::string exported = trained.folder.file("exported.safetensors");
  REQUIRE(run({"export", trained.model(), "--out", exported}).exit_code == 0);
  CHECK(run({"generate", exported, "--prompt", "the cat", "--tokens", "40", "--seed", "5"}).out == text.out);
  // The file's tokenizer divides other texts too.
  trained.folder.write("other.txt", training::rhyme(3) + std::string(200, 'a'));
  CHECK(run_json({"evaluate", exported, "--data", trained.folder.file("other.txt"), "--json"}).at("tokens") ==
        35);
  CHECK(run({"simulate", "--peers", "1", "--model", trained.folder.file("small.toml"), "--data",
             trained.folder.file("other.txt"), "--steps", "2", "--looks", "0", "--init", exported, "--out",
             trained.folder.file("more")})
            .exit_code == 0);
}

TEST_CASE("wrong input for generate is one sentence and exit code 2") {
  const Trained trained;
  const auto refused = [&](Words words) {
    words.insert(words.begin(), "generate");
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  const std::string file = trained.model();
  CHECK(contains(refused({}), "the model is missing: name FILE, a safetensors file, or a running peer"));
  CHECK(contains(refused({file, "--at", "7180"}), "--at cannot be combined with a file"));
  CHECK(contains(refused({file, "--token-file", file}), "--token-file cannot be combined with a file"));
  CHECK(contains(refused({"--at", "7180", "--model", "x"}), "--model cannot be combined with --at"));
  CHECK(contains(refused({file, "--prompt", "the dog"}),
                 "the prompt: the character 'g' (U+0067) at byte 6 is none of the 14 characters"));
  CHECK(contains(refused({file, "--prompt", "\xff"}), "--prompt: the text is not valid UTF-8"));
  CHECK(
      contains(refused({file, "--temperature", "-1"}), "--temperature: '-1' is not a number from 0 to 100"));
  CHECK(contains(refused({file, "--temperature", "nan"}), "--temperature: 'nan' is not a number"));
  CHECK(contains(refused({file, "--top-k", "0"}), "--top-k: '0' is not a whole number from 1 to 65536"));
  CHECK(contains(refused({file, "--top-p", "1.5"}), "--top-p: '1.5' is not a number above 0 and at most 1"));
  CHECK(contains(refused({file, "--tokens", "0"}), "--tokens: '0' is not a whole number from 1 to 1000000"));
  CHECK(contains(refused({trained.folder.file("none.safetensors")}), "cannot read"));
  trained.folder.write("bytes.txt", "starling tokenizer 1\nbytes\n");
  CHECK(contains(refused({file, "--tokenizer", trained.folder.file("bytes.txt")}),
                 "differs from the tokenizer in " + file + "; omit --tokenizer"));
  REQUIRE(run({"simulate", "--peers", "1", "--model", "softmax", "--data", "glyphs", "--steps", "1", "--out",
               trained.folder.file("images")})
              .exit_code == 0);
  CHECK(contains(refused({trained.folder.file("images/model.safetensors")}),
                 "model \"softmax\" is not for text, so it cannot write any"));
}

TEST_CASE("a peer joins without the tokenizer's file, learns the swarm's tokens and continues a text") {
  const TemporaryFolder folder;
  folder.write("rhyme.txt", training::rhyme(60));
  std::string part;
  for (int line = 0; line < 100; ++line) part += "the cat sat on the mat.\n";
  folder.write("part.txt", part);
  folder.write("small.toml", kSmallNetwork);
  REQUIRE(run({"tokenizer", "train", folder.file("rhyme.txt"), "--size", "264", "--out",
               folder.file("tokenizer.txt")})
              .exit_code == 0);
  for (const std::string& tokens : Words{"", ":tokens=" + folder.file("tokenizer.txt")}) {
    Program first({"peer", "--model", folder.file("small.toml"), "--data", folder.file("rhyme.txt") + tokens,
                   "--listen", "127.0.0.1:0", "--epochs", "100000", "--pace", "5ms"});
    const std::string address = first.wait_for_error_word(" listens at ");
    REQUIRE_FALSE(address.empty());
    // Alone, its text would have another vocabulary.
    Program second({"peer", "--join", address, "--own-data", folder.file("part.txt"), "--listen",
                    "127.0.0.1:0", "--http", "127.0.0.1:0", "--name", "second"});
    const std::string http = second.wait_for_error_word("HTTP at ");
    REQUIRE_FALSE(http.empty());
    const auto generated = [&] {
      return run({"generate", "--at", http, "--prompt", "the mat,", "--tokens", "40", "--json"});
    };
    Outcome last;
    eventually([&] { return (last = generated()).exit_code == 0; });
    const std::string why = last.exit_code == 0 ? "" : second.finish().err;
    INFO(why);
    REQUIRE(last.exit_code == 0);
    const json text = summary_of(generated());
    CHECK(text.at("prompt") == "the mat,");
    CHECK_FALSE(text.at("text").get<std::string>().empty());
    const Outcome foreign = run({"generate", "--at", http, "--prompt", "zz"});
    CHECK((foreign.exit_code == (tokens.empty() ? 1 : 0)));
    if (tokens.empty()) CHECK(contains(foreign.err, "refused: the prompt: the character 'z'"));
    const json status = run_json({"status", "--at", http, "--json"});
    CHECK(status.at("sample_tokens") == 16);
    for (Program* peer : {&second, &first}) {
      peer->signal(SIGTERM);
      CHECK(peer->finish().exit_code == 0);
    }
  }
}

}  // namespace starling::cli_tests
