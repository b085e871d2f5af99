// A file that claims to be a checkpoint: rejected with a sentence that names it, or read to a state that fits
// the model. Nothing larger than the file and the model is allocated.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tests/fuzz/checkpoint_layout.h"
#include "tests/fuzz/repair.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/peer_state.h"

using namespace starling;

namespace {

// A regular file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    STARLING_CHECK(descriptor_ >= 0);
    STARLING_CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
                   static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(MemoryFile&&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// The length of the header, which a fuzzer would almost never find: up to the first byte that no JSON has, in
// multiples of 8.
void repair_length(std::vector<std::byte>& bytes) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  if (bytes.size() < kLength) return;
  const auto end = std::find(bytes.begin() + kLength, bytes.end(), std::byte{0});
  store(bytes.data(), std::uint64_t(end - bytes.begin()) - kLength);
}

void check(const Error& error, const std::string& path) {
  STARLING_CHECK(error.message.find(path) != std::string::npos);
}

void check(const training::SavedPeer& saved, const models::Layout& layout) {
  STARLING_CHECK(saved.state.parameters.size() == layout.arena_size());
  for (const training::WorkerState& worker : saved.state.workers) {
    STARLING_CHECK(worker.velocity.size() == layout.trained_size());
    STARLING_CHECK(worker.square.empty() || worker.square.size() == layout.trained_size());
    STARLING_CHECK(worker.cursor.position <= worker.cursor.order.size());
    STARLING_CHECK(!worker.following || worker.following->last.size() == layout.trained_size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = fuzz::copy(data + 1, size - 1);
  if (data[0] % 8 != 0) repair_length(bytes);
  const MemoryFile file(bytes);
  const std::string path = file.path();
  const models::Layout layout = fuzz::checkpoint_layout();

  if (const auto saved = training::read_peer_state(path, layout)) {
    check(*saved, layout);
    STARLING_CHECK(training::read_safetensors(path, layout).ok());
  } else {
    check(saved.error(), path);
  }
  if (const auto parameters = training::read_safetensors(path, layout)) {
    STARLING_CHECK(parameters->arena.size() == layout.arena_size());
  } else {
    check(parameters.error(), path);
  }
  if (const auto facts = training::inspect_peer_state(path)) {
    static_cast<void>(training::model_of(*facts));
  } else {
    check(facts.error(), path);
  }
  if (const auto facts = training::read_metadata(path)) static_cast<void>(training::model_of(*facts));
  return 0;
}
