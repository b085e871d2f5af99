#include "kernels/cuda/nccl.h"

#include <set>

#include "base/check.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {
namespace {

class NcclAverager final : public Averager {
 public:
  NcclAverager(const Nccl& nccl, const std::vector<int>& devices)
      : nccl_(nccl), communicators_(devices.size()) {
    check(nccl_.make(communicators_.data(), static_cast<int>(devices.size()), devices.data()),
          "ncclCommInitAll");
  }
  ~NcclAverager() override {
    for (const auto communicator : communicators_) nccl_.destroy(communicator);
  }
  void give_up() override {
    for (const auto communicator : communicators_) nccl_.abort(communicator);
    communicators_.clear();
  }
  NcclAverager(const NcclAverager&) = delete;
  NcclAverager& operator=(const NcclAverager&) = delete;

  std::string_view name() const override { return "NCCL"; }

  void average(std::span<const Part> parts, std::size_t floats) override {
    STARLING_CHECK(parts.size() == communicators_.size());
    check(nccl_.begin_group(), "ncclGroupStart");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const int status = nccl_.all_reduce(parts[i].vector, parts[i].mean, floats, Nccl::kFloat32, Nccl::kMean,
                                          communicators_[i], stream_of(*parts[i].queue).get());
      if (status == Nccl::kSuccess) continue;
      nccl_.end_group();
      check(status, "ncclAllReduce");
    }
    check(nccl_.end_group(), "ncclGroupEnd");
  }

 private:
  void check(int status, const char* call) const {
    if (status == Nccl::kSuccess) return;
    throw DeviceError(std::string(call) + " failed: " + nccl_.word(status));
  }

  const Nccl& nccl_;
  std::vector<Nccl::Communicator> communicators_;
};

}  // namespace

std::string nccl_version() {
  int number = 0;
  if (nccl() == nullptr || nccl()->version(&number) != Nccl::kSuccess) return "no NCCL";
  return "NCCL " + std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

std::unique_ptr<Averager> make_nccl_averager(const std::vector<int>& devices) {
  const bool distinct = std::set<int>(devices.begin(), devices.end()).size() == devices.size();
  if (nccl() == nullptr || !distinct) return nullptr;
  return std::make_unique<NcclAverager>(*nccl(), devices);
}

}  // namespace starling::kernels::cuda
