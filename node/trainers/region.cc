#include "node/trainers/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

namespace starling::node {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeaderBytes = kPage;

std::size_t round_up_to_page(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

// Where the parts of a region begin.
struct Region::Places {
  explicit Places(const Declaration& declaration)
      : layout(declaration.layout()), text(declaration.table()), floats(layout.arena_size()) {
    const std::size_t room = round_up_to_page(floats * sizeof(float));
    arena = kHeaderBytes + round_up_to_page(text.size());
    if (!declaration.view) {
      post = arena + room;
      reply = post + room;
    }
    bytes = arena + (declaration.view ? 1 : 3) * room;
    if (!declaration.states.empty()) {
      state_bytes = sizeof(float) * declaration.state_words();
      given = bytes;
      received = given + round_up_to_page(state_bytes);
      bytes = received + round_up_to_page(state_bytes);
    }
  }

  models::Layout layout;
  std::string text;
  std::size_t floats, arena, post = 0, reply = 0, bytes = 0;
  std::size_t given = 0, received = 0, state_bytes = 0;
};

namespace {

Error refused(const char* what, std::size_t bytes) {
  return Error{"the memory shared with the trainer, " + std::to_string(bytes) + " bytes, cannot be " + what +
               ": " + std::strerror(errno)};
}

}  // namespace

std::size_t Region::bytes_for(const Declaration& declaration) { return Places(declaration).bytes; }

Result<std::unique_ptr<Region>> Region::make(const Declaration& declaration) {
  const Places places(declaration);
  const int descriptor = ::memfd_create("starling-trainer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return refused("made", places.bytes);
  void* begin = MAP_FAILED;
  if (::ftruncate(descriptor, static_cast<off_t>(places.bytes)) == 0 &&
      ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    begin = ::mmap(nullptr, places.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (begin == MAP_FAILED) {
    const Error error = refused("mapped", places.bytes);
    ::close(descriptor);
    return error;
  }
  std::unique_ptr<Region> region(new Region(descriptor, static_cast<std::byte*>(begin), places.bytes));
  region->write_header(places, declaration.view);
  return region;
}

Region::~Region() {
  ::munmap(begin_, bytes_);
  ::close(descriptor_);
}

void Region::write_header(const Places& places, bool view) {
  floats_ = places.floats;
  arena_ = places.arena;
  post_ = places.post;
  reply_ = places.reply;
  given_ = places.given;
  received_ = places.received;
  state_bytes_ = places.state_bytes;
  std::byte* to = begin_;
  const auto put = [&to](const auto& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  std::memcpy(to, "STARLING", 8);
  to += 8;
  put(kContractMajor);
  put(kContractMinor);
  put(std::uint32_t{view});
  put(std::uint64_t{bytes_});
  put(places.layout.fingerprint());
  put(std::uint64_t{floats_});
  put(static_cast<std::uint32_t>(places.layout.tensors().size()));
  put(std::uint32_t{0});
  put(std::uint64_t{kHeaderBytes});
  put(std::uint64_t{places.text.size()});
  put(std::uint64_t{arena_});
  put(std::uint64_t{post_});
  put(std::uint64_t{reply_});
  put(std::uint64_t{given_});
  put(std::uint64_t{received_});
  put(std::uint64_t{state_bytes_ / sizeof(float)});
  std::memcpy(begin_ + kHeaderBytes, places.text.data(), places.text.size());
  clear_trainer_words();
}

void Region::clear_trainer_words() {
  using Word = TrainerWord;
  for (const Word word : {Word::steps, Word::samples, Word::accuracy_steps, Word::post, Word::post_steps,
                          Word::post_samples, Word::post_era, Word::state_given})
    at(static_cast<std::size_t>(word)).store(0);
  const auto unknown = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
  for (const Word word : {Word::loss, Word::accuracy, Word::learning_rate})
    at(static_cast<std::size_t>(word)).store(unknown);
}

}  // namespace starling::node
