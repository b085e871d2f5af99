#include "node/trainers/declaration.h"

#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "node/trainers/region.h"
#include "tests/catch.h"

namespace starling::node {
namespace {

const std::vector<std::string> kSound = {"starling-trainer 1.0",
                                         "mode copy",
                                         "model gpt-mini",
                                         "data shakespeare",
                                         "epoch 60000",
                                         "batch 64",
                                         "device torch 2.5 cpu",
                                         "tensor wte.weight bf16 trained 65,128",
                                         "tensor norm.mean f32 running 128",
                                         "tensor scale f32 trained -",
                                         "tensor table f64 frozen 3,3",
                                         "tied head.weight wte.weight",
                                         "end"};

// The error of the first line that has one; empty: the declaration is complete.
std::string read(const std::vector<std::string>& lines, Declaration* out = nullptr) {
  DeclarationReader reader;
  for (const std::string& line : lines) {
    const auto complete = reader.take(line);
    if (!complete) return complete.error().message;
    if (!*complete) continue;
    if (out != nullptr) *out = reader.declaration();
    return "";
  }
  return "incomplete";
}

std::string read_with(const std::string& line) {
  return read({"starling-trainer 1.0", "tensor w f32 trained 2", line, "end"});
}

}  // namespace

TEST_CASE("a declaration becomes a layout with its trained tensors first, and a table") {
  Declaration declared;
  REQUIRE(read(kSound, &declared).empty());
  CHECK_FALSE(declared.view);
  CHECK(declared.model == "gpt-mini");
  CHECK(declared.data == "shakespeare");
  CHECK(declared.device == "torch 2.5 cpu");
  CHECK(declared.epoch == 60000);
  CHECK(declared.batch == 64);
  CHECK(declared.tied == std::vector{std::pair<std::string, std::string>("head.weight", "wte.weight")});
  const auto layout = declared.layout();
  CHECK(layout.trained_size() == 65 * 128 + 16);
  CHECK(layout.arena_size() == 65 * 128 + 16 + 128 + 16);
  CHECK(declared.table() ==
        "0 8320 bf16 trained 65,128 wte.weight\n"
        "8320 1 f32 trained - scale\n"
        "8336 128 f32 running 128 norm.mean\n"
        "8464 9 f64 frozen 3,3 table\n");
}

TEST_CASE("the trainer's state has places of its own, and a fingerprint of names, types and shapes") {
  const auto declared = [](const std::vector<std::string>& states) {
    std::vector<std::string> lines = {"starling-trainer 1.2", "tensor w f32 trained 2"};
    lines.insert(lines.end(), states.begin(), states.end());
    lines.emplace_back("end");
    Declaration out;
    REQUIRE(read(lines, &out).empty());
    return out;
  };
  const Declaration moments = declared({"state w/m f32 2", "state w/half bf16 3", "state w/step f64 -"});
  CHECK(moments.tensors.size() == 1);
  CHECK(moments.layout().arena_size() == 16);
  CHECK(moments.state_words() == 48);
  CHECK(moments.table() ==
        "0 2 f32 trained 2 w\n0 2 f32 state 2 w/m\n16 2 bf16 state 3 w/half\n32 2 f64 state - w/step\n");
  const auto fingerprint = declared({"state w/m f32 2"}).state_fingerprint();
  CHECK(fingerprint == declared({"state w/m f32 2"}).state_fingerprint());
  for (const char* other : {"state w/v f32 2", "state w/m f64 2", "state w/m f32 1,2", "state w/m f32 3"})
    CHECK(fingerprint != declared({other}).state_fingerprint());
  CHECK(declared({}).state_fingerprint() == 0);
}

TEST_CASE("another minor version is accepted, and another major one is not") {
  const auto with_version = [](const std::string& version) {
    return read({"starling-trainer " + version, "tensor w f32 trained 2", "end"});
  };
  CHECK(with_version("1.0").empty());
  CHECK(with_version("1.77").empty());
  CHECK(with_version("2.0").find("the trainer has version 2.0 of the contract, and this peer has 1.2") == 0);
  CHECK(with_version("1").find("'1' is not a version such as 1.2") == 0);
  CHECK(with_version("1.0.0").find("'1.0.0' is not a version") == 0);
  CHECK(read({"GET / HTTP/1.1"}).find("a trainer begins with 'starling-trainer 1.2'") == 0);
}

TEST_CASE("an error in a declaration names the line and what would be right") {
  CHECK(read_with("colour green").empty());  // of a later minor version
  CHECK(read_with("mode swim") == "line 3 of the declaration, mode: 'swim' is neither copy nor view");
  CHECK(read_with("epoch 0") ==
        "line 3 of the declaration, epoch: '0' is not a number from 1 to 1099511627776");
  CHECK(read_with("batch -1").find("'-1' is not a number from 1 to") != std::string::npos);
  CHECK(read_with("model a b").find("is not a name of at most 200 bytes without spaces") !=
        std::string::npos);
  CHECK(read_with("model \xff").find("is not a name") != std::string::npos);
  CHECK(read_with("device").find("expected 1 to 200 bytes") != std::string::npos);
  CHECK(read_with("tensor w f32 trained 3").find("w is declared twice") != std::string::npos);
  CHECK(read_with("tensor v i64 trained 3").find("'i64', which is not f32, f64, f16 or bf16") !=
        std::string::npos);
  CHECK(read_with("tensor v f32 adrift 3").find("'adrift', which is not trained, running or frozen") !=
        std::string::npos);
  CHECK(read_with("tensor v f32 trained 3,x").find("'3,x', which is not like 64,3,5,5") != std::string::npos);
  CHECK(read_with("tensor v f32 trained 3,0").find("the tensor v has an extent below 1") !=
        std::string::npos);
  CHECK(read_with("tensor v f32 trained").find("expected NAME TYPE ROLE SHAPE") != std::string::npos);
  CHECK(read_with("tensor v f32 trained 1048576,1048577").find("more than 2^40 floats") != std::string::npos);
  CHECK(read_with("state w/m f32 trained 2").find("expected NAME TYPE SHAPE") != std::string::npos);
  CHECK(read_with("state w f32 2").find("w is declared twice") != std::string::npos);
  CHECK(read_with("state w/m i64 2").find("'i64', which is not f32, f64, f16 or bf16") != std::string::npos);
  CHECK(read_with("state w/m f32 1048576,1048577").find("more than 2^40 floats") != std::string::npos);
  CHECK(read_with("tied v u").find("no tensor u is declared before") != std::string::npos);
  CHECK(read_with("tied w w").find("w is declared twice") != std::string::npos);
  for (const char* wrong :
       {"1 2 3", "1 2 3 4 5", "1 -2 3 4", "1 4 3 4", "1 2 3 9e9", "1 2 9007199254740993 4"})
    CHECK(read_with("made " + std::string(wrong)) == "line 3 of the declaration, made: '" +
                                                         std::string(wrong) +
                                                         "' is not STEPS SAMPLES SWARM_SAMPLES SECONDS");
  Declaration again;
  REQUIRE(read({"starling-trainer 1.1", "tensor w f32 trained 2", "made 5 40 100 7", "end"}, &again).empty());
  CHECK(again.made.steps == 5);
  CHECK(again.made.samples == 40);
  CHECK(again.made.swarm_samples == 100);
  CHECK(again.made.seconds == 7);
  CHECK(read({"starling-trainer 1.0", "end"}) == "the declaration has no trained tensor");
  CHECK(read({"starling-trainer 1.0", "mode view", "tensor w bf16 trained 2", "end"}) ==
        "mode view needs tensors of type f32, but for frozen ones");
  CHECK(read({"starling-trainer 1.0", "mode view", "tensor w f32 trained 2", "tensor n f64 frozen -",
              "end"}) == "");
}

TEST_CASE("a damaged declaration is an error or another declaration, never more") {
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    auto lines = kSound;
    std::string& line = lines[random.below(lines.size())];
    for (std::uint64_t i = random.below(3) + 1; i > 0; --i)
      line[random.below(line.size())] = static_cast<char>(random.below(256));
    Declaration declared;
    if (read(lines, &declared).empty()) CHECK(declared.layout().arena_size() % 16 == 0);
  }
}

TEST_CASE("a region has the parts of its mode, zeroed, and cannot be resized") {
  Declaration declared;
  REQUIRE(read(kSound, &declared).empty());
  for (const bool view : {false, true}) {
    declared.view = view;
    const auto made = Region::make(declared);
    REQUIRE(made.ok());
    Region& region = **made;
    CHECK(region.bytes() == Region::bytes_for(declared));
    CHECK(region.bytes() == 4096 + 4096 + (view ? 1 : 3) * 36864);  // 8480 floats need 9 pages
    CHECK(region.arena().size() == declared.layout().arena_size());
    for (const float value : region.arena()) REQUIRE(value == 0);
    CHECK(::ftruncate(region.descriptor(), 0) != 0);
    CHECK(::ftruncate(region.descriptor(), static_cast<off_t>(2 * region.bytes())) != 0);
    region.set(PeerWord::era, std::uint64_t{7});
    CHECK(region.get(TrainerWord::steps) == 0);
    CHECK(std::isnan(region.get_real(TrainerWord::loss)));
  }
}

}  // namespace starling::node
