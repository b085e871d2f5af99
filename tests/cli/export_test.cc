// Saved models in files for other programs.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/contains.h"
#include "training/runs/experiment/kinds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Rows of three classes; the first column has large numbers with small differences.
std::string rows_of_three(int count, const std::string& third) {
  std::ostringstream text;
  text << "when,\"u, v\",kind\n";
  for (int k = 0; k < count; ++k)
    text << 1'700'000'000 + k % 3 * 40 + k * 31 % 17 << "," << (k * 7919 % 100) / 50.0 << ","
         << std::array<std::string, 3>{"ash", "elm", third}[static_cast<std::size_t>(k % 3)] << "\n";
  return text.str();
}

// `third`: the name of the third class.
struct TableModel {
  explicit TableModel(const std::string& third = "oak") {
    const std::string cell = training::csv_cell(third);
    std::filesystem::create_directory(folder.file("trees"));
    folder.write("trees/train.csv", rows_of_three(300, cell));
    folder.write("trees/test.csv", rows_of_three(40, cell));
    const Outcome outcome = run({"simulate", "--peers", "1", "--model", "mlp", "--data", folder.file("trees"),
                                 "--steps", "60", "--looks", "0", "--out", folder.file("run")});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }
  std::string model() const { return folder.file("run/model.safetensors"); }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("an ONNX file of a table's model gives predict's classes for the cells of the table") {
  const TableModel trained;
  const auto& folder = trained.folder;
  const std::string onnx = folder.file("model.onnx");
  const Outcome exported = run({"export", trained.model(), "--format", "onnx", "--out", onnx});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  CHECK(exported.err.empty());
  folder.write("predictions.csv", run({"predict", trained.model(), "--data", folder.file("trees")}).out);
  const std::string command = "python3 " STARLING_SOURCE_DIR "/tests/cli/compare_onnx.py " + onnx + " " +
                              folder.file("trees/test.csv") + " " + folder.file("predictions.csv") + " > " +
                              folder.file("said") + " 2>&1";
  const int status = std::system(command.c_str());
  constexpr int kMissing = 77 << 8;
  INFO(read_whole(folder.file("said")));
  if (status == kMissing) {
    WARN("skipped: " << read_whole(folder.file("said")));
  } else {
    CHECK(status == 0);
  }
}

TEST_CASE("an export to ONNX that is impossible is refused in a line") {
  const TableModel trained;
  const auto& folder = trained.folder;
  const auto refused = [&](Words more, const std::string& why) {
    Words words = {"export", trained.model()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, why));
  };
  const std::string out = folder.file("out");
  refused({"--format", "keras", "--out", out}, "--format: 'keras' is unknown; expected safetensors");
  refused({"--format", "onnx", "--names", "gpt2", "--out", out}, "--names has no effect with --format onnx");
  refused({"--data", "glyphs", "--out", out}, "--data has no effect with --format safetensors");
  refused({"--format", "onnx", "--out", trained.model()}, "which is read");
  refused({"--format", "onnx", "--data", "NOSUCH", "--out", out},
          "--data has no effect, because " + trained.model() + " describes its data; omit it");
  refused({"--format", "onnx", "--force", "--out", out}, "--force has no effect with --format onnx");
  refused({"--model", "mlp", "--out", out}, "--model has no effect without --names");
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a GPT is exported as a folder of transformers, and another network is refused with the reason") {
  const TemporaryFolder folder;
  folder.write("book.txt", std::string(40, 'a') + "bcd\n" + std::string(400, 'd'));
  const auto export_of = [&](const std::string& more) {
    folder.write("net.toml", "type = 'gpt'\nlayers = 1\nheads = 2\nfeatures = 8\ncontext = 6\n" + more);
    const Outcome trained = run({"simulate", "--peers", "1", "--model", folder.file("net.toml"), "--data",
                                 folder.file("book.txt"), "--steps", "1", "--looks", "0", "--out",
                                 folder.file("run"), "--force"});
    INFO(trained.err);
    REQUIRE(trained.exit_code == 0);
    return run({"export", folder.file("run"), "--format", "transformers", "--out", folder.file("out/gpt")});
  };
  const Outcome plain = export_of("bias = false\ntanh = true\nhidden = 12\n");
  INFO(plain.err);
  REQUIRE(plain.exit_code == 0);
  const json config = json::parse(read_whole(folder.file("out/gpt/config.json")));
  CHECK(config.at("model_type") == "gpt2");
  CHECK(config.at("vocab_size") == 5);
  CHECK(config.at("n_positions") == 6);
  CHECK(config.at("n_inner") == 12);
  CHECK(config.at("activation_function") == "gelu_new");
  CHECK(config.at("eos_token_id").is_null());
  const json header = *header_of(folder.file("out/gpt/model.safetensors"));
  CHECK(header.at("__metadata__").at("format") == "pt");
  CHECK(header.at("transformer.h.0.attn.c_attn.weight").at("shape") == json::array({8, 24}));
  CHECK(header.at("transformer.h.0.mlp.c_fc.bias").at("shape") == json::array({12}));
  CHECK_FALSE(header.contains("lm_head.weight"));
  const json tokenizer = json::parse(read_whole(folder.file("out/gpt/tokenizer.json")));
  CHECK(tokenizer.at("model").at("vocab") == json({{"\n", 0}, {"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}}));

  std::filesystem::remove_all(folder.file("out"));
  for (const auto& [more, why] : {std::pair("rotary = true", "its positions are rotary"),
                                  std::pair("rms = true", "its blocks have RMS norms"),
                                  std::pair("swiglu = true", "its blocks have SwiGLU"),
                                  std::pair("groups = 1", "its heads share keys and values")}) {
    const Outcome refused = export_of(more);
    INFO(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(
        contains(refused.err, std::string("the GPT-2 of transformers cannot compute this network: ") + why));
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("out")));
}

TEST_CASE("a folder of transformers replaces its own files, and another model's only with --force") {
  const TemporaryFolder folder;
  folder.write("book.txt", std::string(40, 'a') + "bcd\n" + std::string(400, 'd'));
  folder.write("net.toml", "type = 'gpt'\nlayers = 1\nheads = 2\nfeatures = 8\ncontext = 6\n");
  REQUIRE(run({"simulate", "--peers", "1", "--model", folder.file("net.toml"), "--data",
               folder.file("book.txt"), "--steps", "1", "--looks", "0", "--out", folder.file("run")})
              .exit_code == 0);
  const auto exported = [&](Words more) {
    Words words = {"export", folder.file("run"), "--format", "transformers", "--out", folder.file("out/gpt")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  REQUIRE(exported({}).exit_code == 0);
  CHECK(exported({}).exit_code == 0);
  const std::string mine = read_whole(folder.file("out/gpt/config.json"));
  const std::string other = R"({"model_type": "gpt2", "n_layer": 12})";
  folder.write("out/gpt/config.json", other);
  const Outcome foreign = exported({});
  CHECK(foreign.exit_code == 2);
  CHECK(
      contains(foreign.err,
               "config.json is of another model; choose another folder, or replace its files with --force"));
  CHECK(read_whole(folder.file("out/gpt/config.json")) == other);
  std::filesystem::remove(folder.file("out/gpt/config.json"));
  CHECK(contains(exported({}).err, "model.safetensors is of another model"));
  CHECK(exported({"--force"}).exit_code == 0);
  CHECK(read_whole(folder.file("out/gpt/config.json")) == mine);
}

TEST_CASE("predict prints names of classes and all probabilities, as CSV or as a JSON object per line") {
  TableModel trained("o\"ak, old");
  const auto predicted = [&](Words more) {
    Words words = {"predict", trained.model(), "--data", trained.folder.file("trees"), "--limit", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome csv = predicted({"--probabilities"});
  INFO(csv.err);
  CHECK(
      csv.out.starts_with("sample,class,probability,label,line,class_name,label_name,probability_ash,"
                          "probability_elm,\"probability_o\"\"ak, old\"\n0,"));
  CHECK(contains(csv.out, ",\"o\"\"ak, old\","));
  const Outcome lines = predicted({"--probabilities", "--format", "jsonl"});
  std::istringstream text(lines.out);
  int count = 0;
  for (std::string line; std::getline(text, line); ++count) {
    const json object = json::parse(line);
    CHECK(object.at("sample") == count);
    CHECK(object.at("label_name") == std::array{"ash", "elm", "o\"ak, old"}[static_cast<std::size_t>(count)]);
    const auto probabilities = object.at("probabilities").get<std::vector<double>>();
    REQUIRE(probabilities.size() == 3);
    CHECK(probabilities[0] + probabilities[1] + probabilities[2] == Approx(1));
    CHECK(probabilities[object.at("class").get<std::size_t>()] == object.at("probability").get<double>());
  }
  CHECK(count == 3);
  CHECK(predicted({"--format", "json"}).out == predicted({"--json"}).out);
  CHECK(json::parse(predicted({"--json"}).out).at("predictions").size() == 3);
  const Outcome wrong = predicted({"--format", "xml"});
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "--format: 'xml' is unknown; expected csv, jsonl or json"));
  CHECK(
      contains(predicted({"--format", "csv", "--json"}).err, "--json cannot be combined with --format csv"));
}

}  // namespace starling::cli_tests
