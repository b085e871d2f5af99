#include "node/all_reduce/outer_averaging.h"

namespace starling::node {
namespace {

training::Floats parameters_in(const models::Arena& arena) {
  training::Floats values(arena.size());
  arena.read(0, values);
  return values;
}

}  // namespace

OuterAveraging::OuterAveraging(models::Arena& arena, std::size_t trained, std::uint32_t rank,
                               std::uint32_t size, const training::MixOptions& options)
    : arena_(arena),
      rank_(rank),
      size_(size),
      fragments_(options.fragments),
      replica_(parameters_in(arena)),
      diloco_(replica_, trained, size, options) {}

Result<std::uint64_t> OuterAveraging::meet(Collective& collective, bool last) {
  arena_.read(0, replica_);
  std::uint64_t sent = 0;
  for (std::uint32_t k = 0; k < (last ? fragments_ : 1); ++k) {
    const auto averaged = average(collective, round_++);
    if (!averaged) return averaged;
    sent += *averaged;
  }
  return sent;
}

Result<std::uint64_t> OuterAveraging::average(Collective& collective, std::uint64_t round) {
  const std::size_t bytes = diloco_.part_bytes(round);
  changes_.resize(size_ * bytes);
  received_.resize(size_ * bytes);
  mean_.resize(bytes);
  diloco_.encode_changes(round, rank_, replica_, changes_);
  if (Status sent = collective.to_each(changes_, received_); !sent) return sent.error();
  diloco_.average(round, rank_, received_, mean_);
  if (Status sent = collective.to_all(mean_, received_); !sent) return sent.error();
  diloco_.step(round, received_);
  const auto [offset, floats] = diloco_.fragment(round);
  arena_.write(offset, diloco_.outer().subspan(offset, floats));
  return std::uint64_t{2} * (size_ - 1) * bytes;
}

}  // namespace starling::node
