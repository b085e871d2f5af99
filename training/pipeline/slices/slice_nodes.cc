#include "training/pipeline/slices/slice_nodes.h"

#include <variant>

#include "base/check.h"
#include "kernels/operation.h"

namespace starling::training {
namespace {

using kernels::kNone;

// Changes a layer's operation to one that computes only these channels of its output.
class NodeSlicer {
 public:
  NodeSlicer(const models::Plan& plan, const models::LayerInfo& info, const Channels& channels)
      : plan_(plan),
        info_(info),
        first_(static_cast<std::size_t>(channels.front().begin)),
        count_(count_of(channels)),
        is_one_range_(channels.size() == 1) {}

  void operator()(kernels::ConvolutionSpec& it) const {
    if (it.groups > 1) it.groups = count_ / (it.channels / it.groups);
    it.channels = count_;
    move_rows(it);
  }
  void operator()(kernels::LinearSpec& it) const {
    it.features = count_;
    move_rows(it);
  }
  void operator()(kernels::BatchNormSpec& it) const {
    STARLING_CHECK(is_one_range_);
    for (std::size_t* const tensor : {&it.scale, &it.shift, &it.mean, &it.variance}) *tensor += first_;
  }
  void operator()(kernels::AttentionSpec& it) const {
    const int queries = it.heads / it.groups, size = info_.output.channels / it.heads;
    STARLING_CHECK(is_one_range_);
    it.all_heads = it.heads;
    it.first_head = static_cast<int>(first_) / size;
    it.heads = count_ / size;
    it.groups = it.heads / queries;
  }
  void operator()(kernels::DropoutSpec& it) const {
    STARLING_CHECK(is_one_range_);
    it.all_channels = info_.output.channels;
    it.first_channel = static_cast<int>(first_);
  }
  // Others compute the same of fewer channels, or are not divided.
  template <class T>
  void operator()(T&) const {}

 private:
  // A weight has one row for each channel of the output.
  template <class T>
  void move_rows(T& it) const {
    STARLING_CHECK(is_one_range_);
    const std::size_t weights = plan_.layout.tensors()[info_.tensors[0]].size;
    it.weight += first_ * (weights / static_cast<std::size_t>(info_.output.channels));
    if (it.bias != kNone) it.bias += first_;
  }

  const models::Plan& plan_;
  const models::LayerInfo& info_;
  std::size_t first_;
  int count_;
  bool is_one_range_;
};

}  // namespace

models::Lowered lower_slice(const models::Plan& plan, const models::Lowered& lowered, const SlicePlan& slices,
                            const SliceRun& run, std::size_t part) {
  models::Lowered made{lowered.input_height, lowered.input_width, {}};
  for (int i = run.begin; i < run.end; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    const LayerSlices& its = slices.layers[layer];
    const auto key = [&](int source) {
      return source >= run.begin ? source - run.begin : slice_input_key(find_input(run, source, its.needs));
    };
    models::Node node = lowered.nodes[layer];
    node.from = key(node.from);
    if (node.operation) {
      if (count_of(its.channels[part]) < plan.layers[layer].output.channels)
        std::visit(NodeSlicer(plan, plan.layers[layer], its.channels[part]), *node.operation);
    } else {
      node.other = key(node.other);
    }
    made.nodes.push_back(node);
  }
  return made;
}

}  // namespace starling::training
