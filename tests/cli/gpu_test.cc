// Peers on a GPU: together with peers on processors, with too little memory, and when the device fails. Tests
// that need a small or failing GPU use the emulated one; the others use it only if the machine has no GPU.
#include <signal.h>

#include <nlohmann/json.hpp>

#include <optional>

#include "kernels/cuda_module.h"
#include "tests/catch.h"
#include "tests/cli/program.h"
#include "tests/kernels/gpu.h"
#include "tests/seeds.h"
#include "tests/waiting.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// The CUDA module of the tests: the machine's own, else the emulated one; empty if there is neither.
const std::string& gpu() {
  static const std::string path = []() -> std::string {
    for (const std::string& place : kernels::cuda_module_places()) {
      const auto module = kernels::load_cuda_module({place});
      if (!module) continue;
      const auto devices = (*module)->devices();
      if (devices && !devices->empty() && devices->front().problem.empty()) return place;
    }
    if (kernels::gpu_is_a_must()) FAIL("STARLING_TESTS_GPU=must, and there is no GPU");
#ifdef STARLING_EMULATED_MODULE
    return STARLING_EMULATED_MODULE;
#else
    WARN("skipped: there is no GPU, and the build has no emulated one");
    return "";
#endif
  }();
  return path;
}

// The environment for a program that uses it.
Environment environment() { return {{"STARLING_CUDA_MODULE", gpu()}}; }

// The environment with the emulated GPU, even if there is a real one, and `more`, which configures it;
// nothing if the build has none.
std::optional<Environment> emulated(Environment more) {
#ifdef STARLING_EMULATED_MODULE
  more.insert({"STARLING_CUDA_MODULE", STARLING_EMULATED_MODULE});
  return more;
#else
  WARN("skipped: the build has no emulated GPU");
  return std::nullopt;
#endif
}

Words listening_peer(Words more) {
  Words words = {"peer", "--listen", "127.0.0.1:0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The number after `words`; 0 if the text does not contain them.
double number_behind(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + words.size()));
}

double accuracy_in(const std::string& log) { return number_behind(log, "accuracy "); }

}  // namespace

TEST_CASE("a peer on a GPU and two on processors train one model together", "[gpu][figures]") {
  if (gpu().empty()) return;
  const TemporaryFolder folder;
  Program first(listening_peer({"--model", "mlp", "--device", "cuda:0", "--steps", "800", "--pace", "5ms",
                                "--http", "127.0.0.1:0"}),
                environment());
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second(listening_peer({"--join", address, "--device", "cpu", "--pace", "5ms"}));
  Program third(
      listening_peer({"--join", address, "--device", "cpu", "--pace", "5ms", "--precision", "f32"}));
  REQUIRE(second.wait_for_error_text("training begins"));
  REQUIRE(third.wait_for_error_text("training begins"));
  const Outcome status = run({"status", "--at", http, "--json"});
  REQUIRE(status.exit_code == 0);
  CHECK(json::parse(status.out).at("device") == "cuda:0");
  for (Program* program : {&first, &second, &third}) {
    const Outcome outcome = program->finish();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(accuracy_in(outcome.err) > 0.85);
    CHECK(outcome.err.find("refused") == std::string::npos);
  }
}

TEST_CASE("two workers of a peer share a GPU's arena, in bfloat16", "[gpu][figures]") {
  if (gpu().empty()) return;
  const Outcome outcome = run(listening_peer({"--model", "mlp", "--device", "cuda:0", "--workers", "2",
                                              "--precision", "bf16", "--steps", "120"}),
                              environment());
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(accuracy_in(outcome.err) > 0.7);
}

TEST_CASE("a peer with a replica on each of two GPUs exchanges as one peer, and its accuracy rises",
          "[gpu][figures]") {
  const auto two = emulated({{"STARLING_EMULATOR_DEVICES", "2"}});
  if (!two) return;
  Program first(listening_peer({"--model", "mlp", "--devices", "cuda:0,cuda:1", "--average-every", "4",
                                "--steps", "800", "--pace", "5ms", "--http", "127.0.0.1:0"}),
                *two);
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second(listening_peer({"--join", address, "--device", "cpu", "--pace", "5ms"}));
  REQUIRE(second.wait_for_error_text("training begins"));
  json status;
  REQUIRE(eventually([&] {
    status = json::parse(run({"status", "--at", http, "--json"}).out);
    return !status.at("device_spread").is_null();
  }));
  CHECK(status.at("device") == "cuda:0,cuda:1");
  REQUIRE(status.at("device_spread").is_number());
  CHECK(status.at("device_spread") >= 0);
  for (Program* program : {&first, &second}) {
    const Outcome outcome = program->finish();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(accuracy_in(outcome.err) > 0.85);
    CHECK(outcome.err.find("refused") == std::string::npos);
  }
}

TEST_CASE("two GPUs hold one replica together: in stages, without a flush, and with divided layers",
          "[gpu][figures]") {
  const auto two = emulated({{"STARLING_EMULATOR_DEVICES", "2"}});
  if (!two) return;
  struct Way {
    Words flags;
    const char* said;
  };
  for (const Way& way : some_of<Way>({{{"--split", "stages"}, "on cuda:0,cuda:1 (2 stages: "},
                                      {{"--split", "stages", "--pipeline", "pipedream"}, "; pipedream"},
                                      {{"--split", "layers"}, "on cuda:0,cuda:1 (each layer in 2 parts)"}})) {
    Words flags{"--model", "mlp", "--devices", "cuda:0,cuda:1", "--steps", "150", "--pace", "5ms"};
    flags.insert(flags.end(), way.flags.begin(), way.flags.end());
    Program first(listening_peer(flags), *two);
    const std::string address = first.wait_for_error_word(" listens at ");
    REQUIRE(first.wait_for_error_text("training begins"));
    Program second(listening_peer({"--join", address, "--device", "cpu", "--pace", "5ms"}));
    for (Program* program : {&first, &second}) {
      const Outcome outcome = program->finish();
      INFO(outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(accuracy_in(outcome.err) > 0.8);
      CHECK(outcome.err.find("refused") == std::string::npos);
      if (program == &first) CHECK(outcome.err.find(way.said) != std::string::npos);
    }
  }
}

TEST_CASE("two stages share a GPU", "[gpu][figures]") {
  if (gpu().empty()) return;
  const Outcome outcome = run(listening_peer({"--model", "mlp", "--devices", "cuda:0,cuda:0", "--split",
                                              "stages", "--pipeline", "pipedream", "--steps", "150"}),
                              environment());
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("on cuda:0,cuda:0 (2 stages: ") != std::string::npos);
  CHECK(accuracy_in(outcome.err) > 0.8);
}

TEST_CASE("a peer in stages ends in order if one of its GPUs fails or is too small", "[gpu]") {
  const Words words = listening_peer(
      {"--model", "mlp", "--devices", "cuda:0,cuda:1", "--split", "stages", "--steps", "100000"});
  const auto breaks = emulated({{"STARLING_EMULATOR_DEVICES", "2"}, {"STARLING_EMULATOR_CALLS", "9000"}});
  const auto small = emulated({{"STARLING_EMULATOR_DEVICES", "2"}, {"STARLING_EMULATOR_MEMORY", "30000"}});
  if (!breaks || !small) return;
  const Outcome lost = run(words, *breaks);
  INFO(lost.err);
  CHECK(lost.exit_code == 1);
  CHECK(lost.err.find("training begins") != std::string::npos);
  CHECK(lost.err.find(" failed: ") != std::string::npos);
  const Outcome full = run(words, *small);
  INFO(full.err);
  CHECK(full.exit_code == 2);
  CHECK(is_one_line(full.err));
  CHECK(full.err.find(" has no room for ") != std::string::npos);
}

TEST_CASE("--devices must name existing GPUs", "[gpu]") {
  if (gpu().empty()) return;
  const auto refused = [](const Words& words, const std::string& why) {
    Words all = {"--model", "mlp"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run(listening_peer(all), environment());
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  refused({"--devices", "cuda:0,cuda:0"},
          "training.devices: cuda:0 occurs twice, which needs training.split = stages or layers");
  refused({"--devices", "cuda:0,cpu"}, "does not name devices of one kind");
  refused({"--devices", "cuda:0,"}, "does not name devices of one kind");
  refused({"--devices", "cuda:0,cuda:7"}, "training.devices: ");
  refused({"--devices", "cuda:0,cuda:1", "--device", "cpu"},
          "training.devices and training.device cannot be combined");
}

TEST_CASE("a swarm distributes its peers over the GPUs", "[gpu]") {
  const auto two = emulated({{"STARLING_EMULATOR_DEVICES", "2"}});
  if (!two) return;
  const TemporaryFolder folder;
  const Outcome outcome = run(
      {"swarm", "--peers", "3", "--model", "softmax", "--steps", "20", "--out", folder.file("out"), "--json"},
      *two);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  std::vector<std::string> devices;
  for (const json& it : summary.at("per_peer")) devices.push_back(it.at("device").get<std::string>());
  CHECK(devices == std::vector<std::string>{"cuda:0", "cuda:1", "cuda:0"});
}

TEST_CASE("too little GPU memory is an error with the required and the free memory", "[gpu]") {
  const auto with = [](double bytes) {
    return emulated({{"STARLING_EMULATOR_MEMORY", std::to_string(static_cast<long>(bytes))}});
  };
  if (!with(0)) return;
  for (const Words& flags :
       {Words{"--model", "lenet", "--batch-size", "512"},
        Words{"--model", "mlp", "--batch-size", "3000", "--workers", "2", "--precision", "bf16"}}) {
    Words words = listening_peer({"--device", "cuda:0", "--steps", "5"});
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(words, *with(75e6));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find("cuda:0 has 75.0 MB free of its 75.0 MB, and training " + flags[1] +
                           " with batches of " + flags[3] + " by ") != std::string::npos);
    const double need = 1e6 * number_behind(outcome.err, " needs about ");
    REQUIRE(need > 80e6);
    // The figure is right: with slightly more memory the peer starts, with slightly less it does not.
    CHECK(run(words, *with(0.95 * need)).exit_code == 2);
    Program starts(words, *with(1.05 * need));
    CHECK(starts.wait_for_error_text("training begins"));
  }
}

TEST_CASE("a GPU too small for the smallest batch is an error with the free memory", "[gpu]") {
  const auto small = emulated({{"STARLING_EMULATOR_MEMORY", "3000000"}});
  if (!small) return;
  const Outcome outcome =
      run(listening_peer({"--model", "lenet", "--device", "cuda:0", "--steps", "5"}), *small);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("cuda:0 has no room for ") != std::string::npos);
  CHECK(outcome.err.find(" are free; ") != std::string::npos);
}

TEST_CASE("a peer that loses its GPU leaves, and the others continue", "[gpu]") {
  const auto breaks = emulated({{"STARLING_EMULATOR_CALLS", "4000"}});
  if (!breaks) return;
  Program stays(listening_peer({"--model", "mlp", "--device", "cpu", "--pace", "5ms"}));
  const std::string address = stays.wait_for_error_word(" listens at ");
  REQUIRE(stays.wait_for_error_text("training begins"));
  Program loses(listening_peer({"--join", address, "--device", "cuda:0", "--pace", "2ms", "--name", "loses"}),
                *breaks);
  REQUIRE(loses.wait_for_error_text("training begins"));
  const Outcome outcome = loses.finish();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find(" failed: ") != std::string::npos);
  CHECK(stays.wait_for_error_text("has left"));
  stays.signal(SIGTERM);
  CHECK(stays.finish().exit_code == 0);
}

TEST_CASE("a peer that loses its GPUs during an average ends", "[gpu]") {
  const auto breaks = emulated({{"STARLING_EMULATOR_DEVICES", "2"}, {"STARLING_EMULATOR_CALLS", "9000"}});
  if (!breaks) return;
  const Outcome outcome = run(listening_peer({"--model", "mlp", "--devices", "cuda:0,cuda:1",
                                              "--average-every", "1", "--steps", "100000"}),
                              *breaks);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("training begins") != std::string::npos);
  CHECK(outcome.err.find(" failed: ") != std::string::npos);
}

TEST_CASE("a GPU that does not exist is rejected", "[gpu]") {
  if (gpu().empty()) return;
  const Outcome outcome = run(listening_peer({"--model", "mlp", "--device", "cuda:7"}), environment());
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("training.device: ") != std::string::npos);
}

}  // namespace starling::cli_tests
