#include "training/learning/slices/slice_plan.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace starling::training {
namespace {

using models::LayerInfo;

template <class T, class... Others>
constexpr bool kIsOneOf = (std::is_same_v<T, Others> || ...);

// Layers that compute each channel of the output from the same channel of the input.
template <class T>
constexpr bool kKeepsChannels = kIsOneOf<T, models::Relu, models::Gelu, models::BatchNorm, models::Dropout,
                                         models::AveragePool, models::MaxPool, models::GlobalAveragePool>;

int key_groups(const models::Attention& it) { return it.groups == 0 ? it.heads : it.groups; }

// What can be divided: channels, units or groups; 1 if nothing can.
int slices_of(const LayerInfo& info) {
  return std::visit(
      [&]<class T>(const T& it) {
        if constexpr (std::is_same_v<T, models::Convolution>) return it.groups > 1 ? it.groups : it.channels;
        if constexpr (std::is_same_v<T, models::Linear>) return it.features;
        if constexpr (std::is_same_v<T, models::Attention>) return key_groups(it);
        if constexpr (std::is_same_v<T, models::Swiglu>) return info.output.channels;
        return 1;
      },
      info.layer.kind);
}

// Appends a range, unless it is empty.
void append(Channels& to, int begin, int end) {
  if (begin == end) return;
  if (!to.empty() && to.back().end == begin) {
    to.back().end = end;
  } else {
    to.push_back({begin, end});
  }
}

Channels range(int begin, int end) {
  Channels channels;
  append(channels, begin, end);
  return channels;
}

// Slice k of `count` things among `parts` parts: as equal as possible.
ChannelRange slice(int count, std::size_t parts, std::size_t k) {
  const auto bound = [&](std::size_t part) {
    return static_cast<int>(std::uint64_t{part} * static_cast<std::uint64_t>(count) / parts);
  };
  return {bound(k), bound(k + 1)};
}

class Slicer {
 public:
  Slicer(const models::Plan& plan, std::size_t parts) : plan_(plan), parts_(parts) {}

  SlicePlan make() {
    find_readers();
    const auto layers = static_cast<int>(plan_.layers.size());
    for (int i = 0; i < layers; ++i) made_.layers.push_back(slices_for(i));
    for (int begin = 0; begin < layers; begin = made_.runs.back().end) add_run(begin);
    return std::move(made_);
  }

 private:
  const LayerInfo& layer(int i) const { return plan_.layers[static_cast<std::size_t>(i)]; }
  const LayerSlices& slices(int i) const { return made_.layers[static_cast<std::size_t>(i)]; }
  bool is_divided(int i) const {
    return i >= 0 && slices(i).channels[0] != range(0, layer(i).output.channels);
  }

  // ---- layers ----

  LayerSlices slices_for(int i) const {
    const LayerInfo& info = layer(i);
    if (info.other != LayerInfo::kNone) {
      return as(is_divided(info.from) || !is_divided(info.other) ? info.from : info.other, info);
    }
    return std::visit(
        [&]<class T>(const T& it) {
          if constexpr (std::is_same_v<T, models::BatchNorm>) {
            return is_divided(info.from) ? as(info.from, info) : whole(info);
          } else if constexpr (kKeepsChannels<T>) {
            return as(info.from, info);
          } else if constexpr (kIsOneOf<T, models::LayerNorm, models::GroupNorm, models::RmsNorm>) {
            return repeated(info);
          } else if constexpr (std::is_same_v<T, models::Linear>) {
            return divide(it, i);
          } else if constexpr (std::is_same_v<T, models::Swiglu>) {
            return is_divided(info.from) ? divide(it, info) : whole(info);
          } else if constexpr (kIsOneOf<T, models::Convolution, models::Attention>) {
            return divide(it, info);
          } else {
            return whole(info);
          }
        },
        info.layer.kind);
  }

  // By part 0.
  LayerSlices whole(const LayerInfo& info) const {
    LayerSlices it{std::vector<Channels>(parts_), std::vector<Channels>(parts_)};
    it.channels[0] = range(0, info.output.channels);
    it.needs[0] = range(0, info.input.channels);
    return it;
  }

  // By every part.
  LayerSlices repeated(const LayerInfo& info) const {
    return {std::vector<Channels>(parts_, range(0, info.output.channels)),
            std::vector<Channels>(parts_, range(0, info.input.channels))};
  }

  // In the slices of an earlier layer.
  LayerSlices as(int earlier, const LayerInfo& info) const {
    if (earlier < 0) return whole(info);
    return {slices(earlier).channels, slices(earlier).channels};
  }

  // Calls add(begin, end, channels, needs) for each part that has some of what can be divided.
  template <class Add>
  LayerSlices divide_by(const LayerInfo& info, const Add& add) const {
    LayerSlices it{std::vector<Channels>(parts_), std::vector<Channels>(parts_)};
    for (std::size_t k = 0; k < parts_; ++k) {
      const auto [begin, end] = slice(slices_of(info), parts_, k);
      if (begin < end) add(begin, end, it.channels[k], it.needs[k]);
    }
    return it;
  }

  LayerSlices divide(const models::Convolution& it, const LayerInfo& info) const {
    const int out = it.groups > 1 ? it.channels / it.groups : 1, in = info.input.channels / it.groups;
    return divide_by(info, [&](int begin, int end, Channels& channels, Channels& needs) {
      append(channels, begin * out, end * out);
      needs = it.groups > 1 ? range(begin * in, end * in) : range(0, in);
    });
  }
  LayerSlices divide(const models::Linear&, int i) const {
    const LayerInfo& info = layer(i);
    LayerSlices it = divide_by(info, [&](int begin, int end, Channels& channels, Channels& needs) {
      append(channels, begin, end);
      append(needs, 0, info.input.channels);
    });
    if (const std::vector<Channels> wanted = wanted_by_reader(i); !wanted.empty()) {
      it.channels = wanted;
      it.needs.assign(parts_, range(0, info.input.channels));
    }
    return it;
  }
  // What the parts need of a layer that only attention or SwiGLU reads, if all parts have some of that.
  std::vector<Channels> wanted_by_reader(int i) const {
    const auto next = static_cast<std::size_t>(i) + 1;
    if (next == plan_.layers.size() || readers_[next - 1] != 1 || plan_.layers[next].from != i) return {};
    const LayerInfo& reader = plan_.layers[next];
    if (static_cast<std::size_t>(slices_of(reader)) < parts_) return {};
    if (const auto* it = std::get_if<models::Attention>(&reader.layer.kind)) return divide(*it, reader).needs;
    if (const auto* it = std::get_if<models::Swiglu>(&reader.layer.kind)) return divide(*it, reader).needs;
    return {};
  }
  // An input has the queries of all heads, then all keys, then all values.
  LayerSlices divide(const models::Attention& it, const LayerInfo& info) const {
    const int size = info.output.channels / it.heads, groups = key_groups(it);
    const int queries = it.heads / groups * size;  // of each group
    return divide_by(info, [&](int begin, int end, Channels& channels, Channels& needs) {
      append(channels, begin * queries, end * queries);
      append(needs, begin * queries, end * queries);
      for (const int first : {it.heads, it.heads + groups})
        append(needs, (first + begin) * size, (first + end) * size);
    });
  }
  LayerSlices divide(const models::Swiglu&, const LayerInfo& info) const {
    return divide_by(info, [&](int begin, int end, Channels& channels, Channels& needs) {
      append(channels, begin, end);
      for (const int first : {0, info.output.channels}) append(needs, first + begin, first + end);
    });
  }

  // ---- runs ----

  // The earlier layers that a layer reads.
  std::vector<int> sources(int i) const {
    if (layer(i).other == LayerInfo::kNone) return {layer(i).from};
    return {layer(i).from, layer(i).other};
  }

  void find_readers() {
    last_readers_.assign(plan_.layers.size(), -1);
    readers_.assign(plan_.layers.size(), 0);
    for (int i = 0; i < static_cast<int>(plan_.layers.size()); ++i) {
      for (const int source : sources(i)) {
        if (source < 0) continue;
        last_readers_[static_cast<std::size_t>(source)] = i;
        ++readers_[static_cast<std::size_t>(source)];
      }
    }
  }

  // Whether each part has computed itself what layer i needs of an earlier one.
  bool has(int source, int i) const {
    if (source < 0) return false;
    const auto &channels = slices(source).channels, &needs = slices(i).needs;
    return std::ranges::equal(channels, needs, [](const Channels& its, const Channels& needed) {
      return needed.empty() || its == needed;
    });
  }

  // Repeated layers with parameters are runs of their own.
  bool stays_alone(int i) const { return slices(i).is_repeated() && !layer(i).tensors.empty(); }

  bool joins(int begin, int i) const {
    if (stays_alone(begin) || stays_alone(i)) return false;
    return std::ranges::all_of(sources(i), [&](int source) { return source < begin || has(source, i); });
  }
  // Whether no layer outside [begin, end) reads one inside, but the last.
  bool is_closed(int begin, int end) const {
    return std::all_of(last_readers_.begin() + begin, last_readers_.begin() + end - 1,
                       [&](int reader) { return reader < end; });
  }

  void add_run(int begin) {
    int end = begin + 1;
    while (end < static_cast<int>(plan_.layers.size()) && joins(begin, end)) ++end;
    while (!is_closed(begin, end)) --end;
    SliceRun run{begin, end, {}, end == static_cast<int>(plan_.layers.size())};
    for (int i = begin; i < end; ++i) {
      for (const int source : sources(i)) {
        if (source < begin) add_input(run, {source, slices(i).needs, !has(source, i)});
      }
    }
    for (const SliceInput& input : run.inputs) {
      if (!input.gathered || input.layer < 0) continue;
      std::ranges::find(made_.runs, input.layer + 1, &SliceRun::end)->gathered = true;
    }
    made_.runs.push_back(std::move(run));
  }

  static void add_input(SliceRun& run, SliceInput input) {
    if (find_input(run, input.layer, input.needs) == run.inputs.size())
      run.inputs.push_back(std::move(input));
  }

  const models::Plan& plan_;
  std::size_t parts_;
  SlicePlan made_;
  std::vector<int> readers_, last_readers_;  // of each layer: how many, and which
};

}  // namespace

int count_of(const Channels& channels) {
  int count = 0;
  for (const auto& [begin, end] : channels) count += end - begin;
  return count;
}

std::size_t find_input(const SliceRun& run, int layer, const std::vector<Channels>& needs) {
  const auto found = std::ranges::find_if(
      run.inputs, [&](const SliceInput& it) { return it.layer == layer && it.needs == needs; });
  return static_cast<std::size_t>(found - run.inputs.begin());
}

SlicePlan slice_layers(const models::Plan& plan, std::size_t parts) {
  STARLING_CHECK(parts > 0);
  return Slicer(plan, parts).make();
}

MostSlices most_slices(const models::Plan& plan) {
  MostSlices most{LayerInfo::kNone, 1};
  for (int i = 0; i < static_cast<int>(plan.layers.size()); ++i) {
    const int slices = slices_of(plan.layers[static_cast<std::size_t>(i)]);
    if (slices > most.parts) most = {i, slices};
  }
  return most;
}

std::vector<SlicePiece> common_pieces(const Channels& from, const Channels& to, std::size_t plane) {
  std::vector<SlicePiece> pieces;
  int at = 0;  // channels of `from` before the range
  for (const ChannelRange& a : from) {
    int place = 0;  // the same of `to`
    for (const ChannelRange& b : to) {
      const int begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
      if (begin < end) {
        pieces.push_back({static_cast<std::size_t>(at + begin - a.begin) * plane,
                          static_cast<std::size_t>(place + begin - b.begin) * plane,
                          static_cast<std::size_t>(end - begin) * plane});
      }
      place += b.end - b.begin;
    }
    at += a.end - a.begin;
  }
  return pieces;
}

}  // namespace starling::training
