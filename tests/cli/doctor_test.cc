// What `starling doctor` reports about processor and GPUs, as text and as JSON. The GPUs are emulated.

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

json examine_alone(const Environment& environment) {
  const Outcome outcome = run({"doctor", "--json"}, environment);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(is_one_line(outcome.out));
  return json::parse(outcome.out);
}

TEST_CASE("doctor describes the processor") {
  const json found = examine_alone({{"STARLING_CUDA_MODULE", "/nowhere"}});
  CHECK(!found.at("version").get<std::string>().empty());
  CHECK(found.at("onednn").get<std::string>().find('.') != std::string::npos);
  const json& processor = found.at("processor");
  CHECK(!processor.at("name").get<std::string>().empty());
  CHECK(processor.at("processors").get<int>() >= 1);
  CHECK(processor.at("processors_usable").get<int>() >= 1);
  for (const auto& [name, there] : processor.at("instructions").items()) {
    CAPTURE(name);
    CHECK(there.is_boolean());
  }
  CHECK(processor.at("bf16").get<bool>() == processor.at("bf16_problem").is_null());
}

TEST_CASE("doctor lists where it searched for the CUDA back end") {
  const Environment nowhere = {{"STARLING_CUDA_MODULE", "/nowhere"}};
  const json found = examine_alone(nowhere);
  const json& cuda = found.at("cuda");
  CHECK(cuda.at("places") == json::array({"/nowhere"}));
  CHECK(cuda.at("module").is_null());
  CHECK(cuda.at("loaded") == false);
  CHECK(cuda.at("libraries").is_null());
  CHECK(cuda.at("problem").get<std::string>().find("not installed at /nowhere") != std::string::npos);
  CHECK(cuda.at("devices").empty());
  CHECK(found.at("device_auto") == "cpu");

  const Outcome text = run({"doctor"}, nowhere);
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  CHECK(text.out.find("the CUDA back end is not installed at /nowhere") != std::string::npos);
  CHECK(text.out.find("A peer with --device auto trains on this processor.") != std::string::npos);
}

TEST_CASE("doctor reports a CUDA back end that cannot be loaded") {
  const TemporaryFolder folder;
  folder.write("module.so", "no library");
  const json cuda = examine_alone({{"STARLING_CUDA_MODULE", folder.file("module.so")}}).at("cuda");
  CHECK(cuda.at("module") == folder.file("module.so"));
  CHECK(cuda.at("loaded") == false);
  CHECK(cuda.at("problem").get<std::string>().find("cannot be loaded") != std::string::npos);
}

#ifdef STARLING_EMULATED_MODULE
TEST_CASE("doctor lists the GPUs and the one that a peer would use") {
  const Environment two = {{"STARLING_CUDA_MODULE", STARLING_EMULATED_MODULE},
                           {"STARLING_EMULATOR_DEVICES", "2"}};
  const json found = examine_alone(two);
  const json& cuda = found.at("cuda");
  CHECK(cuda.at("module") == STARLING_EMULATED_MODULE);
  CHECK(cuda.at("loaded") == true);
  CHECK(cuda.at("problem").is_null());
  CHECK(cuda.at("libraries").get<std::string>().find("cuDNN") != std::string::npos);
  REQUIRE(cuda.at("devices").size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const json& device = cuda.at("devices").at(i);
    CHECK(device.at("device") == "cuda:" + std::to_string(i));
    CHECK(!device.at("name").get<std::string>().empty());
    CHECK(device.at("memory_bytes").get<double>() >= device.at("free_bytes").get<double>());
    CHECK(device.at("free_bytes").get<double>() > 0);
    CHECK(device.at("usable") == true);
    CHECK(device.at("problem").is_null());
  }
  CHECK(found.at("device_auto") == "cuda:0");

  const Outcome text = run({"doctor"}, two);
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("\ncuda:1 ") != std::string::npos);
  CHECK(text.out.find("A peer with --device auto trains on cuda:0.") != std::string::npos);
}
#endif

}  // namespace
}  // namespace starling::cli_tests
