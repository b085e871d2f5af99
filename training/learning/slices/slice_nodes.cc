#include "training/learning/slices/slice_nodes.h"

#include <variant>

#include "base/check.h"
#include "kernels/operation.h"

namespace starling::training {
namespace {

using kernels::kNone;

// Changes a layer's operation to one that computes only these channels of its output.
class NodeSlicer {
 public:
  // `own`: the parameters are copied to the part's vector, which grows.
  NodeSlicer(const models::Plan& plan, const models::LayerInfo& info, const Channels& channels, bool own,
             SliceNodes& made)
      : plan_(plan),
        info_(info),
        channels_(channels),
        first_(channels.front().begin),
        count_(count_of(channels)),
        own_(own),
        made_(made) {}

  void operator()(kernels::ConvolutionSpec& it) const {
    if (it.groups > 1) it.groups = count_ / (it.channels / it.groups);
    it.channels = count_;
    place_rows(it);
  }
  void operator()(kernels::LinearSpec& it) const {
    it.features = count_;
    place_rows(it);
  }
  void operator()(kernels::BatchNormSpec& it) const {
    for (std::size_t* const tensor : {&it.scale, &it.shift, &it.mean, &it.variance}) place(*tensor, 1);
  }
  void operator()(kernels::GroupNormSpec& it) const {
    place(it.scale, 1);
    place(it.shift, 1);
  }
  void operator()(kernels::RmsNormSpec& it) const { place(it.scale, 1); }
  void operator()(kernels::EmbeddingSpec& it) const { place_whole(it.weight, it.shared); }
  void operator()(kernels::PositionSpec& it) const { place_whole(it.weight, false); }
  void operator()(kernels::AttentionSpec& it) const {
    if (count_ == info_.output.channels) return;
    STARLING_CHECK(channels_.size() == 1);
    const int queries = it.heads / it.groups, size = info_.output.channels / it.heads;
    it.all_heads = it.heads;
    it.first_head = first_ / size;
    it.heads = count_ / size;
    it.groups = it.heads / queries;
  }
  void operator()(kernels::DropoutSpec& it) const {
    if (count_ == info_.output.channels) return;
    STARLING_CHECK(channels_.size() == 1);
    it.all_channels = info_.output.channels;
    it.first_channel = first_;
  }
  // Others compute the same of fewer channels, or are not divided.
  template <class T>
  void operator()(T&) const {}

 private:
  // A weight has one row for each channel of the output.
  template <class T>
  void place_rows(T& it) const {
    const std::size_t weights = plan_.layout.tensors()[info_.tensors[0]].size;
    place(it.weight, weights / static_cast<std::size_t>(info_.output.channels));
    place(it.bias, 1);
  }

  // Moves a tensor's offset to where the part has its rows, of `row` floats each.
  void place(std::size_t& tensor, std::size_t row) const {
    if (tensor == kNone) return;
    const auto at = [&](int channel) { return tensor + static_cast<std::size_t>(channel) * row; };
    if (!own_) {
      STARLING_CHECK(channels_.size() == 1);
      tensor = at(first_);
      return;
    }
    const std::size_t begin = made_.own_floats;
    for (const ChannelRange& range : channels_) {
      const std::size_t floats = static_cast<std::size_t>(range.end - range.begin) * row;
      made_.own.push_back({at(range.begin), made_.own_floats, floats});
      made_.own_floats += floats;
    }
    made_.own_floats = (made_.own_floats + 15) / 16 * 16;
    tensor = begin;
  }

  // The same for the weight of a layer that is not divided.
  void place_whole(std::size_t& tensor, bool added) const {
    if (!own_) return;
    const std::size_t floats = plan_.layout.tensors()[info_.tensors[0]].size;
    made_.own.push_back({tensor, made_.own_floats, floats, added});
    tensor = made_.own_floats;
    made_.own_floats = (made_.own_floats + floats + 15) / 16 * 16;
  }

  const models::Plan& plan_;
  const models::LayerInfo& info_;
  const Channels& channels_;
  int first_, count_;
  bool own_;
  SliceNodes& made_;
};

// Whether the part's rows of some layer's parameters are not side by side in the arena, or are others' too.
bool needs_own(const models::Plan& plan, const SlicePlan& slices, const SliceRun& run, std::size_t part) {
  for (auto i = static_cast<std::size_t>(run.begin); i < static_cast<std::size_t>(run.end); ++i) {
    const LayerSlices& its = slices.layers[i];
    if (!plan.layers[i].tensors.empty() && (its.is_repeated() || its.channels[part].size() > 1)) return true;
  }
  return false;
}

}  // namespace

SliceNodes lower_slice(const models::Plan& plan, const models::Lowered& lowered, const SlicePlan& slices,
                       const SliceRun& run, std::size_t part, bool all_own) {
  SliceNodes made{{lowered.input_height, lowered.input_width, {}}};
  const bool own = all_own || needs_own(plan, slices, run, part);
  for (int i = run.begin; i < run.end; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    const LayerSlices& its = slices.layers[layer];
    const auto key = [&](int source) {
      return source >= run.begin ? source - run.begin : slice_input_key(find_input(run, source, its.needs));
    };
    models::Node node = lowered.nodes[layer];
    node.from = key(node.from);
    if (node.operation) {
      std::visit(NodeSlicer(plan, plan.layers[layer], its.channels[part], own, made), *node.operation);
    } else {
      node.other = key(node.other);
    }
    made.lowered.nodes.push_back(node);
  }
  return made;
}

}  // namespace starling::training
