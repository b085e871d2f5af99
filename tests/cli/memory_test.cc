// The memory that `model show` predicts: it adds up, and real processes use as much.

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "tests/catch.h"
#include "tests/cli/json.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARLING_OWN_MEMORY 0  // sanitizers need memory of their own
#else
#define STARLING_OWN_MEMORY 1
#endif

namespace starling::cli_tests {
namespace {

using nlohmann::json;

std::size_t bytes(const json& object, const char* key) { return object.at(key).get<std::size_t>(); }

json shown(Words words) {
  words.insert(words.begin(), {"model", "show"});
  words.push_back("--json");
  return run_json(words);
}

// A CIFAR folder with few images: the sets need little memory, the networks as much as usual.
void write_images(const TemporaryFolder& folder) {
  for (const auto& [name, count] : {std::pair("data_batch_1.bin", 500), std::pair("test_batch.bin", 10)}) {
    std::string records;
    for (int i = 0; i < count; ++i) {
      records += static_cast<char>(i % 10);
      for (int k = 0; k < 3 * 32 * 32; ++k) records += static_cast<char>((i * 31 + k * 7) % 251);
    }
    folder.write(name, records);
  }
}

// While it exists, programs that are started may allocate this much.
class DataLimit {
 public:
  explicit DataLimit(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_DATA, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_DATA, &limit) == 0);
  }
  ~DataLimit() { ::setrlimit(RLIMIT_DATA, &before_); }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;

 private:
  rlimit before_{};
};

// What the peer logs at its end. (The system's figure for a child starts at its parent's.)
double most_megabytes(const Outcome& peer) {
  const std::string label = "memory: at most ";
  const std::size_t at = peer.err.find(label);
  return at == std::string::npos ? 0 : std::stod(peer.err.substr(at + label.size()));
}

}  // namespace

TEST_CASE("the memory of layers and shared buffers adds up to the total") {
  for (const char* model : {"softmax", "mlp", "lenet", "resnet8"}) {
    for (const Words& more :
         {Words{}, Words{"--recompute"}, Words{"--workers", "3", "--optimizer", "adamw"}}) {
      Words words = {model, "--batch-size", "8", "--input", "3x32x32"};
      words.insert(words.end(), more.begin(), more.end());
      const json it = shown(words);
      INFO(model);
      std::size_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
      for (const json& layer : it.at("layers")) {
        weights += bytes(layer, "weights_bytes");
        gradients += bytes(layer, "gradients_bytes");
        optimizer += bytes(layer, "optimizer_bytes");
        activations += bytes(layer, "activations_bytes");
        workspace += bytes(layer, "workspace_bytes");
        if (bytes(layer, "activations_bytes") > 0) CHECK(layer.at("activations_at") == layer.at("name"));
      }
      CHECK(weights == bytes(it, "weights_bytes"));
      CHECK(gradients == bytes(it, "gradients_bytes"));
      CHECK(optimizer == bytes(it, "optimizer_bytes"));
      CHECK(activations == bytes(it, "kept_bytes"));
      CHECK(workspace + bytes(it, "scratch_bytes") == bytes(it, "workspace_bytes"));
      CHECK(bytes(it, "activations_bytes") == activations + bytes(it, "workspace_bytes") +
                                                  bytes(it, "batch_bytes") +
                                                  bytes(it, "activation_gradients_bytes"));
      CHECK(bytes(it, "memory_bytes") == weights + gradients + optimizer + bytes(it, "activations_bytes"));
    }
  }
}

TEST_CASE("workers share the weights and nothing else") {
  const json one = shown({"lenet"}), three = shown({"lenet", "--workers", "3"});
  CHECK(three.at("weights_bytes") == one.at("weights_bytes"));
  for (const char* key : {"gradients_bytes", "optimizer_bytes", "activations_bytes"})
    CHECK(bytes(three, key) == 3 * bytes(one, key));
}

TEST_CASE("a parameter takes 12 bytes with momentum and 16 with AdamW") {
  const json sgd = shown({"lenet"}), adamw = shown({"lenet", "--optimizer", "adamw"});
  CHECK(sgd.at("bytes_per_parameter") == json{{"weight", 4}, {"gradient", 4}, {"optimizer", 4}});
  CHECK(adamw.at("bytes_per_parameter") == json{{"weight", 4}, {"gradient", 4}, {"optimizer", 8}});
  CHECK(bytes(adamw, "optimizer_bytes") == 2 * bytes(sgd, "optimizer_bytes"));
  CHECK(run({"model", "show", "lenet"}).out.find("a parameter takes 12 bytes") != std::string::npos);
}

TEST_CASE("the table of a deep network's layers fits into 120 columns") {
  const std::string text = run({"model", "show", "resnet18", "--input", "3x32x32", "--batch-size", "4"}).out;
  CHECK(text.find('\n') <= 120);
}

TEST_CASE("model show uses the shape and memory of a data set") {
  const json it = shown({"softmax", "--data", "glyphs"});
  CHECK(it.at("parameters") == 7850);
  CHECK(bytes(it.at("peer"), "data_bytes") == 70'000 * 785 + 60'000 * 4);
  const std::string text = run({"model", "show", "softmax", "--data", "glyphs"}).out;
  CHECK(text.find("glyphs 55.2 MB") != std::string::npos);
  CHECK(run({"model", "show", "softmax", "--data", "glyphs", "--classes", "3"})
            .err.find("--classes cannot be combined with --data") != std::string::npos);
  CHECK(run({"model", "show", "softmax", "--workers", "0"}).exit_code == 2);
}

TEST_CASE("model show describes a network that would not fit, and its training ends in a sentence") {
  if (!STARLING_OWN_MEMORY) return;
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "one line of " + std::to_string(i) + "\n";
  folder.write("text.txt", text);
  const json it = shown({"gpt2"});
  CHECK(bytes(it.at("peer"), "peak_bytes") > 10'000'000'000);
  rusage children{};
  REQUIRE(::getrusage(RUSAGE_CHILDREN, &children) == 0);
  CHECK(children.ru_maxrss < 4'000'000);  // kB, of the largest child so far

  const DataLimit limit(2'000'000'000);
  CHECK(run({"model", "show", "gpt2"}).exit_code == 0);
  const Outcome refused = run({"simulate", "--peers", "1", "--model", "gpt2", "--optimizer", "sgd", "--data",
                               folder.file("text.txt"), "--steps", "1", "--out", folder.file("run")});
  INFO(refused.err);
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("this needs more memory than the machine") != std::string::npos);
}

TEST_CASE("a peer uses the predicted memory within 10 %") {
  if (!STARLING_OWN_MEMORY) return;
  const TemporaryFolder folder;
  write_images(folder);
  const std::vector<Words> cases = {
      {"lenet", "--batch-size", "512"},
      {"mlp", "--batch-size", "1024", "--optimizer", "adamw"},
      {"resnet8", "--batch-size", "64"},
      {"resnet8", "--batch-size", "64", "--recompute"},
      {"resnet8", "--batch-size", "32", "--workers", "2"},
      {"resnet18", "--batch-size", "2"},
  };
  for (Words words : cases) {
    const std::string model = words.front();
    words.insert(words.end(), {"--data", folder.file("")});
    const auto told = static_cast<double>(bytes(shown(words).at("peer"), "peak_bytes"));
    // On a busy machine one of two workers makes the first steps alone.
    const bool divided = std::ranges::find(words, "--workers") != words.end();
    words.insert(words.begin(), {"peer", "--listen", "127.0.0.1:0", "--device", "cpu", "--steps",
                                 divided ? "60" : "4", "--model"});
    const Outcome peer = run(words);
    INFO(model << ":\n" << peer.err);
    REQUIRE(peer.exit_code == 0);
    CHECK(told / 1e6 == Approx(most_megabytes(peer)).epsilon(0.1));
  }
}

TEST_CASE("a rule whose own memory does not fit ends the peer with an error, not with a crash") {
  if (!STARLING_OWN_MEMORY) return;
  const TemporaryFolder folder;
  folder.write("wide.toml", R"(layers = [{ type = "linear", features = 4000 },
                                         { type = "linear", features = 4000 }, { type = "linear" }])");
  // 19 million parameters: the replica takes 310 MB, noloco's copies of the parameters another 155 MB.
  const DataLimit limit(rlim_t{400} << 20);
  const Outcome peer =
      run({"peer", "--listen", "127.0.0.1:0", "--device", "cpu", "--steps", "2", "--rule", "noloco",
           "--batch-size", "1", "--data", "glyphs", "--model", folder.file("wide.toml")});
  INFO(peer.err);
  CHECK(peer.exit_code == 2);
  CHECK(contains(peer.err,
                 "starling peer: this machine has too little memory for the data, the parameters and "
                 "the workers of the run\n"));
}

}  // namespace starling::cli_tests
