#include "datasets/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/processor.h"
#include "datasets/text/tokenizer.h"

namespace starling::datasets {
namespace {

STARLING_FOR_PROCESSORS void normalize(const std::uint8_t* from, std::size_t pixels, float scale,
                                       float offset, float* to) {
  for (std::size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * scale + offset;
}

STARLING_FOR_PROCESSORS void normalize(const float* from, std::size_t count, Normalization n, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (from[i] - n.mean) / n.deviation;
}

// Every value of a row is a channel.
STARLING_FOR_PROCESSORS void normalize(const float* from, std::size_t count, const Normalization* n,
                                       float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (from[i] - n[i].mean) / n[i].deviation;
}

// Two passes, so that a mean far from zero costs no precision.
std::vector<Normalization> measure_floats(const Dataset& set) {
  struct Channel {
    double sum = 0, squares = 0;  // squares of the distances from the mean
    float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  };
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const std::size_t plane = set.shape.plane();
  const double n = static_cast<double>(set.size() * plane);
  std::vector<Channel> sums(channels);
  const float* value = set.features.data();
  for (std::size_t k = 0; k < set.size(); ++k) {
    for (Channel& channel : sums) {
      for (const float* end = value + plane; value != end; ++value) {
        channel.sum += static_cast<double>(*value);
        channel.least = std::min(channel.least, *value);
        channel.most = std::max(channel.most, *value);
      }
    }
  }
  value = set.features.data();
  for (std::size_t k = 0; k < set.size(); ++k) {
    for (Channel& channel : sums) {
      const double mean = channel.sum / n;
      for (const float* end = value + plane; value != end; ++value) {
        const double distance = static_cast<double>(*value) - mean;
        channel.squares += distance * distance;
      }
    }
  }
  std::vector<Normalization> result;
  result.reserve(channels);
  for (const Channel& channel : sums) {
    const auto deviation = static_cast<float>(std::sqrt(channel.squares / n));
    // All values are equal, or too close for a float's division: no scaling.
    const bool varies = channel.least < channel.most && std::isnormal(deviation);
    result.push_back({static_cast<float>(channel.sum / n), varies ? deviation : 1.0f});
  }
  return result;
}

// The window of a text that begins at this token.
STARLING_FOR_PROCESSORS void copy_window(const Dataset& set, std::size_t begin, float* to,
                                         std::int32_t* labels) {
  const std::uint16_t* tokens = set.tokens.data() + begin;
  const std::size_t count = std::min<std::size_t>(set.context, set.tokens.size() - 1 - begin);
  for (std::size_t k = 0; k < count; ++k) {
    to[k] = static_cast<float>(tokens[k]);
    labels[k] = tokens[k + 1];
  }
  std::fill(to + count, to + set.context, 0.0F);
  std::fill(labels + count, labels + set.context, 0);
}

}  // namespace

std::size_t Dataset::memory_bytes() const {
  return images.size() + features.size() * sizeof(float) + labels.size() + tokens.size() * sizeof tokens[0] +
         documents.size() * sizeof documents[0];
}

void Dataset::set_context(std::uint32_t tokens_per_sample, bool to_its_end) {
  STARLING_CHECK(is_text() && tokens_per_sample > 0);
  context = tokens_per_sample;
  to_the_end = to_its_end;
  shape = {static_cast<int>(context), 1, 1};
}

std::size_t Dataset::labels_of(std::size_t first, std::size_t count) const {
  STARLING_CHECK(first + count <= size());
  const std::size_t most = count * labels_per_sample();
  return to_the_end ? std::min(most, tokens.size() - 1 - first * context) : most;
}

void Dataset::gather(std::span<const std::uint32_t> indices, float* images_out,
                     std::int32_t* labels_out) const {
  if (is_text()) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      STARLING_CHECK(indices[i] < size());
      copy_window(*this, indices[i] * std::size_t{context}, images_out + i * context,
                  labels_out + i * context);
    }
    return;
  }
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = shape.plane();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t index = indices[i];
    STARLING_CHECK(index < size());
    labels_out[i] = labels[index];
    if (has_floats() && plane == 1 && !normalization.empty()) {
      normalize(features.data() + index * channels, channels, normalization.data(),
                images_out + i * channels);
      continue;
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const Normalization n = normalization.empty() ? Normalization{} : normalization[c];
      const std::size_t from = (index * channels + c) * plane;
      float* to = images_out + (i * channels + c) * plane;
      if (has_floats()) {
        normalize(features.data() + from, plane, n, to);
      } else {
        normalize(images.data() + from, plane, 1.0f / (255.0f * n.deviation), -n.mean / n.deviation, to);
      }
    }
  }
}

void Dataset::gather_shifted(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> shifts,
                             float* images_out, std::int32_t* labels_out) const {
  STARLING_CHECK(is_text() && !to_the_end && shifts.size() == indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    STARLING_CHECK(indices[i] < size());
    const std::size_t last = tokens.size() - 1 - context;
    const std::size_t begin = std::min(last, indices[i] * std::size_t{context} + shifts[i]);
    copy_window(*this, begin, images_out + i * context, labels_out + i * context);
  }
}

std::vector<Normalization> measure(const Dataset& set) {
  if (set.is_text()) return {};
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const std::size_t plane = set.shape.plane();
  std::vector<Normalization> result(channels);
  if (set.size() == 0) return result;
  if (set.has_floats()) return measure_floats(set);
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0, squares = 0;
    for (std::size_t k = 0; k < set.size(); ++k) {
      const auto image = std::span(set.images).subspan((k * channels + c) * plane, plane);
      constexpr std::size_t kRun = 1 << 14;  // 2^14 * 255^2 < 2^32, so that the inner sums stay 32 bits wide
      for (std::size_t begin = 0; begin < plane; begin += kRun) {
        std::uint32_t run_sum = 0, run_squares = 0;
        for (const std::uint32_t p : image.subspan(begin, std::min(kRun, plane - begin))) {
          run_sum += p;
          run_squares += p * p;
        }
        sum += run_sum;
        squares += run_squares;
      }
    }
    const double n = static_cast<double>(set.size() * plane);
    const double mean = static_cast<double>(sum) / n;
    const double variance = std::max(0.0, static_cast<double>(squares) / n - mean * mean);
    result[c].mean = static_cast<float>(mean / 255);
    // All pixels are equal: no scaling.
    result[c].deviation = variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f;
  }
  return result;
}

void normalize(DataPair& pair) { pair.train.normalization = pair.test.normalization = measure(pair.train); }

namespace {

// "floats of 1 x 28 x 28".
std::string sample_text(const Dataset& set) {
  return std::string(set.has_floats() ? "floats" : "bytes") + " of " + std::to_string(set.shape.channels) +
         " x " + std::to_string(set.shape.height) + " x " + std::to_string(set.shape.width);
}

}  // namespace

Result<DataPair> join(std::string name, const std::string& folder, Dataset train, Dataset test,
                      Origin origin) {
  if (train.size() == 0) {
    train.shape = test.shape;
    train.classes = test.classes;
    train.offsets = test.offsets;
  }
  if (train.size() > 0 && sample_text(train) != sample_text(test))
    return Error{"in '" + folder + "' a training sample is " + sample_text(train) +
                 " (channels, height, width) and a test sample " + sample_text(test) +
                 "; both must have the same kind and size"};
  STARLING_CHECK(train.offsets == test.offsets);
  if (test.classes > train.classes)
    return Error{"in '" + folder + "' the test labels go up to " + std::to_string(test.classes - 1) +
                 ", but the training labels only to " + std::to_string(train.classes - 1) +
                 "; every class of the test set must occur in the training set"};
  test.classes = train.classes;
  DataPair pair{std::move(name), std::move(train), std::move(test), {}, std::move(origin)};
  normalize(pair);
  return pair;
}

std::string DataPair::tokenizer_text() const { return tokenizer == nullptr ? "" : tokenizer->text(); }

std::optional<double> DataPair::characters_per_token() const {
  if (tokenizer == nullptr || test.tokens.empty()) return std::nullopt;
  std::uint64_t characters = 0;
  for (const std::uint16_t token : test.tokens) {
    for (const char byte : tokenizer->decode_one(token))
      characters += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;  // the first byte of one
  }
  if (characters == 0) return std::nullopt;
  return static_cast<double>(characters) / static_cast<double>(test.tokens.size());
}

Result<DataPair> join_text(std::string name, const std::string& path, Dataset train, Dataset test,
                           text::AnyTokenizer tokenizer, Origin origin) {
  constexpr std::size_t kLeast = 2;        // a token to read and its successor
  const bool absent = train.classes == 0;  // not read
  for (const Dataset* part : {&train, &test}) {
    if (part->tokens.size() >= kLeast || (absent && part == &train)) continue;
    const std::string count = part->tokens.size() == 1 ? "1 token" : "no token";
    return Error{"the text in '" + path + "' is too short: its " + (part == &train ? "training" : "test") +
                 " part has " + count + ", and at least " + std::to_string(kLeast) + " are needed"};
  }
  train.classes = test.classes;
  return DataPair{std::move(name), std::move(train), std::move(test), std::move(tokenizer),
                  std::move(origin)};
}

Status check_context(const DataPair& pair, std::uint32_t context) {
  if (context == 0) return Error{"the context of a language model has at least one token"};
  for (const Dataset* part : {&pair.train, &pair.test, static_cast<const Dataset*>(pair.own.get())}) {
    if (part == nullptr || part->tokens.size() > context || (part == &pair.train && part != &pair.any()))
      continue;
    const std::string which = part == &pair.train  ? "training part of '" + pair.name + "'"
                              : part == &pair.test ? "test part of '" + pair.name + "'"
                                                   : "peer's own text";
    return Error{"the model reads " + std::to_string(context) + " tokens at a time, but the " + which +
                 " has only " + std::to_string(part->tokens.size()) + "; it needs " +
                 std::to_string(context + std::uint64_t{1}) + ": use a longer text or a shorter context"};
  }
  return Done{};
}

NameWithOption split_option(std::string_view name) {
  NameWithOption parts;
  const std::size_t colon = name.find(':');
  parts.base = name.substr(0, colon);
  if (colon == std::string_view::npos) return parts;
  const std::string_view option = name.substr(colon + 1);
  const std::size_t equals = option.find('=');
  parts.key = option.substr(0, equals);
  if (equals != std::string_view::npos) parts.value = option.substr(equals + 1);
  return parts;
}

}  // namespace starling::datasets
