// The fuzz targets without a fuzzer: their initial inputs, the inputs that failed in the past
// (tests/fuzz/inputs), and copies of both with a few changed bytes, which differ in each run of scripts/test.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/fuzz/seeds.h"
#include "tests/seeds.h"
#include "tests/training/temporary_folder.h"

// The entry points of the targets: tests/fuzz/CMakeLists.txt gives each a name of its own.
#define STARLING_TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
STARLING_TARGET(frames)
STARLING_TARGET(messages)
STARLING_TARGET(chunks)
STARLING_TARGET(handshakes)
STARLING_TARGET(gossip)
STARLING_TARGET(http)
STARLING_TARGET(checkpoint)
STARLING_TARGET(trainers)
STARLING_TARGET(text)
STARLING_TARGET(profile)
#undef STARLING_TARGET

namespace starling::fuzz {
namespace {

using Bytes = std::string;

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

constexpr std::array kTargets{
    Target{"frames", fuzz_frames},         Target{"messages", fuzz_messages}, Target{"chunks", fuzz_chunks},
    Target{"handshakes", fuzz_handshakes}, Target{"gossip", fuzz_gossip},     Target{"http", fuzz_http},
    Target{"checkpoint", fuzz_checkpoint}, Target{"trainers", fuzz_trainers}, Target{"text", fuzz_text},
    Target{"profile", fuzz_profile},
};

std::vector<Bytes> files_of(const std::filesystem::path& folder) {
  std::vector<Bytes> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(training::contents(entry.path()));
  return files;
}

void run(const Target& target, const Bytes& input) {
  // A copy without spare room, so that the address sanitizer reports every byte that is read behind the
  // input.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  CHECK(target.run(bytes.data(), bytes.size()) == 0);
}

// One to four changes: a bit, a byte, a number of four bytes, a piece that is missing, or a piece twice.
Bytes changed(Bytes bytes, Random& random) {
  for (std::uint64_t left = 1 + random.below(4); left > 0 && !bytes.empty(); --left) {
    const std::size_t place = random.below(bytes.size());
    const std::size_t length = 1 + random.below(std::min<std::size_t>(bytes.size() - place, 16));
    switch (random.below(6)) {
      case 0:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << random.below(8)));
        break;
      case 1:
        bytes[place] = static_cast<char>(random.below(256));
        break;
      case 2:
        bytes.replace(place, std::min<std::size_t>(4, length), 4, random.chance(0.5) ? '\xff' : '\0');
        break;
      case 3:
        bytes.erase(place, length);
        break;
      case 4:
        bytes.insert(place, bytes.substr(place, length));
        break;
      default:
        bytes.resize(place);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("fuzz targets accept their initial inputs, earlier failures, and copies with changed bytes") {
  const training::TemporaryFolder folder;
  write_seeds(folder.path());
  std::uint64_t first = first_seed();
  for (const Target& target : kTargets) {
    const std::string name(target.name);
    auto inputs = files_of(std::filesystem::path(folder.path()) / name);
    REQUIRE(!inputs.empty());
    for (auto& input : files_of(std::filesystem::path(STARLING_SOURCE_DIR) / "tests/fuzz/inputs" / name))
      inputs.push_back(std::move(input));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      INFO(name << ", input " << i);
      run(target, inputs[i]);
    }
    for (const std::uint64_t end = first + seeds(10'000); first < end; ++first) {
      INFO(name << ", seed " << first);
      Random random(first);
      run(target, changed(inputs[random.below(inputs.size())], random));
    }
  }
}

}  // namespace starling::fuzz
