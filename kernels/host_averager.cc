// An Averager for any devices: it copies the vectors to the host and adds them there.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace starling::kernels {
namespace {

constexpr std::size_t kPiece = 64 * 1024;  // floats

// Works piece by piece: while one is added, the next one is copied.
class HostAverager final : public Averager {
 public:
  explicit HostAverager(const std::vector<const Backend*>& backends) : sum_(kPiece) {
    for (const Backend* backend : backends) {
      for (Lane& lane : lanes_) lane.emplace_back(kPiece, backend->staging());
    }
  }

  std::string_view name() const override { return "the host"; }
  void give_up() override {}  // devices do not wait for each other

  void average(std::span<const Part> parts, std::size_t floats) override {
    STARLING_CHECK(parts.size() == lanes_.front().size());
    if (marks_.empty()) {
      for (const Part& part : parts) marks_.push_back(part.queue->make_mark());
    }
    const std::size_t pieces = (floats + kPiece - 1) / kPiece;
    for (std::size_t i = 0; i < pieces; ++i) {
      if (i == 0) fetch(parts, 0, floats);
      for (const auto& mark : marks_) mark->wait();
      if (i + 1 < pieces) fetch(parts, i + 1, floats);
      spread(parts, i, floats);
    }
    // The staging memory can be reused when the queues are done.
    for (const Part& part : parts) part.queue->wait();
  }

 private:
  using Lane = std::vector<Buffer>;  // a piece of each device, in its staging memory

  static std::size_t length(std::size_t piece, std::size_t floats) {
    return std::min(kPiece, floats - piece * kPiece);
  }

  // The copies of the lane's last piece are done: a queue's copies are in order, and the mark came after
  // them.
  void fetch(std::span<const Part> parts, std::size_t piece, std::size_t floats) {
    Lane& lane = lanes_[piece % lanes_.size()];
    for (std::size_t k = 0; k < parts.size(); ++k) {
      parts[k].queue->download(parts[k].vector + piece * kPiece, lane[k].data(),
                               length(piece, floats) * sizeof(float));
      parts[k].queue->mark(*marks_[k]);
    }
  }

  void spread(std::span<const Part> parts, std::size_t piece, std::size_t floats) {
    Lane& lane = lanes_[piece % lanes_.size()];
    const std::size_t n = length(piece, floats);
    std::fill_n(sum_.data(), n, 0.0F);
    for (const Buffer& one : lane) {
      for (std::size_t i = 0; i < n; ++i) sum_.data()[i] += one.data()[i];
    }
    const float share = 1.0F / static_cast<float>(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      for (std::size_t i = 0; i < n; ++i) lane[k].data()[i] = share * sum_.data()[i];
      parts[k].queue->upload(lane[k].data(), parts[k].mean + piece * kPiece, n * sizeof(float));
    }
  }

  std::array<Lane, 2> lanes_;
  Buffer sum_;
  std::vector<std::unique_ptr<Queue::Mark>> marks_;
};

}  // namespace

std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& backends) {
  STARLING_CHECK(!backends.empty());
  if (auto own = backends.front()->make_averager(backends)) return own;
  return std::make_unique<HostAverager>(backends);
}

}  // namespace starling::kernels
