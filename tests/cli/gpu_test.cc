// Peers on a GPU, as users start them: beside peers on processors, with too little memory, and when the device
// goes in the midst of it. On machines without a GPU it is the emulated one.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "kernels/cuda_module.h"
#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

enum class Gpu { none, emulated, real };

Gpu gpu() {
  static const Gpu found = [] {
    const auto module = kernels::load_cuda_module(kernels::cuda_module_places());
    if (module && (*module)->devices().ok()) return Gpu::real;
#ifdef STARLING_EMULATED_MODULE
    return Gpu::emulated;
#else
    WARN("skipped: there is no GPU, and the build has no emulated one");
    return Gpu::none;
#endif
  }();
  return found;
}

// For a program that is to see it.
Environment environment(Environment more = {}) {
#ifdef STARLING_EMULATED_MODULE
  if (gpu() == Gpu::emulated) more.insert({"STARLING_CUDA_MODULE", STARLING_EMULATED_MODULE});
#endif
  return more;
}

Words peer(Words more) {
  Words words = {"peer", "--listen", "127.0.0.1:0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// 0 where the text has no such words.
double number_behind(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + words.size()));
}

double accuracy_in(const std::string& log) {
  return number_behind(log, "accuracy ");
}

}  // namespace

TEST_CASE("a peer on a GPU and two on processors train one model together") {
  if (gpu() == Gpu::none) return;
  const TemporaryFolder folder;
  Program first(peer({"--model", "mlp", "--device", "cuda:0", "--steps", "250", "--pace", "5ms", "--http", "127.0.0.1:0"}),
                environment());
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second(peer({"--join", address, "--device", "cpu", "--pace", "5ms"}));
  Program third(peer({"--join", address, "--device", "cpu", "--pace", "5ms", "--precision", "f32"}));
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

TEST_CASE("two workers of a peer share a GPU's arena, in bfloat16") {
  if (gpu() == Gpu::none) return;
  const Outcome outcome =
      run(peer({"--model", "mlp", "--device", "cuda:0", "--workers", "2", "--precision", "bf16", "--steps", "120"}),
          environment());
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(accuracy_in(outcome.err) > 0.7);
}

TEST_CASE("a peer with a replica on each of two GPUs exchanges as one, and learns") {
  if (gpu() != Gpu::emulated) return;
  Program first(peer({"--model", "mlp", "--devices", "cuda:0,cuda:1", "--average-every", "4", "--steps", "250", "--pace", "5ms",
                      "--http", "127.0.0.1:0"}),
                environment({{"STARLING_EMULATOR_DEVICES", "2"}}));
  const std::string http = first.wait_for_error_word("HTTP at ");
  const std::string address = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  Program second(peer({"--join", address, "--device", "cpu", "--pace", "5ms"}));
  REQUIRE(second.wait_for_error_text("training begins"));
  json status;
  for (int i = 0; i < 200 && (status.is_null() || status.at("device_spread").is_null()); ++i)
    status = json::parse(run({"status", "--at", http, "--json"}).out);
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

TEST_CASE("several GPUs that are not different, or not there, or beside --device, are refused") {
  const auto refused = [](const Words& words, const std::string& why) {
    Words all = {"--model", "mlp"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run(peer(all), environment());
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  refused({"--devices", "cuda:0,cuda:0"}, "--devices: 'cuda:0,cuda:0' does not name different GPUs; expected cuda:0,cuda:1, ...");
  refused({"--devices", "cuda:0,cpu"}, "does not name different GPUs");
  refused({"--devices", "cuda:0,"}, "does not name different GPUs");
  refused({"--devices", "cuda:0,cuda:7"}, "training.devices: ");
  refused({"--devices", "cuda:0,cuda:1", "--device", "cpu"}, "training.devices and training.device: ");
}

TEST_CASE("a swarm takes a GPU for each peer as far as they go, and says so") {
  if (gpu() != Gpu::emulated) return;
  const TemporaryFolder folder;
  const Outcome outcome = run({"swarm", "--peers", "3", "--model", "softmax", "--steps", "20", "--out", folder.file("out"), "--json"},
                              environment({{"STARLING_EMULATOR_DEVICES", "2"}}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  std::vector<std::string> devices;
  for (const json& it : summary.at("per_peer")) devices.push_back(it.at("device").get<std::string>());
  CHECK(devices == std::vector<std::string>{"cuda:0", "cuda:1", "cuda:0"});
}

TEST_CASE("a GPU without room for the replica is one sentence with the whole need and what is free") {
  if (gpu() != Gpu::emulated) return;
  const auto environment_with = [](double bytes) {
    return environment({{"STARLING_EMULATOR_MEMORY", std::to_string(static_cast<long>(bytes))}});
  };
  for (const Words& flags : {Words{"--model", "lenet", "--batch-size", "512"},
                             Words{"--model", "mlp", "--batch-size", "3000", "--workers", "2", "--precision", "bf16"}}) {
    Words words = peer({"--device", "cuda:0", "--steps", "5"});
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(words, environment_with(75e6));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find("cuda:0 has 75.0 MB free of its 75.0 MB, and training " + flags[1] + " with batches of " +
                           flags[3] + " by ") != std::string::npos);
    const double need = 1e6 * number_behind(outcome.err, " needs about ");
    REQUIRE(need > 80e6);
    // What it says is so: with a little more the peer starts, with a little less it does not.
    CHECK(run(words, environment_with(0.95 * need)).exit_code == 2);
    Program starts(words, environment_with(1.05 * need));
    CHECK(starts.wait_for_error_text("training begins"));
  }
}

TEST_CASE("a GPU without room for the smallest batch is a sentence with what is free") {
  if (gpu() != Gpu::emulated) return;
  const Outcome outcome = run(peer({"--model", "lenet", "--device", "cuda:0", "--steps", "5"}),
                              environment({{"STARLING_EMULATOR_MEMORY", "3000000"}}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("cuda:0 has no room for ") != std::string::npos);
  CHECK(outcome.err.find(" are free; ") != std::string::npos);
}

TEST_CASE("a peer whose GPU is lost says so and ends; the others hear its goodbye and go on") {
  if (gpu() != Gpu::emulated) return;
  Program stays(peer({"--model", "mlp", "--device", "cpu", "--pace", "5ms"}));
  const std::string address = stays.wait_for_error_word(" listens at ");
  REQUIRE(stays.wait_for_error_text("training begins"));
  Program loses(peer({"--join", address, "--device", "cuda:0", "--pace", "2ms", "--name", "loses"}),
                environment({{"STARLING_EMULATOR_CALLS", "4000"}}));
  REQUIRE(loses.wait_for_error_text("training begins"));
  const Outcome outcome = loses.finish();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("the GPU failed at ") != std::string::npos);
  CHECK(stays.wait_for_error_text("has left"));
  stays.signal(SIGTERM);
  CHECK(stays.finish().exit_code == 0);
}

TEST_CASE("a GPU that is not there is refused with those that are") {
  const Outcome outcome = run(peer({"--model", "mlp", "--device", "cuda:7"}), environment());
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find("training.device: ") != std::string::npos);
}

}  // namespace starling::cli_tests
