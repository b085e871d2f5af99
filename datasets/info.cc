#include "datasets/info.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/text.h"
#include "datasets/text/tokenizer.h"

namespace starling::datasets {
namespace {

std::vector<std::size_t> count_classes(const Dataset& set, int classes) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(classes));
  for (const std::uint8_t label : set.labels) ++counts.at(label);
  return counts;
}

TextInfo::Part describe_part(const Dataset& set, const text::Tokenizer* tokenizer) {
  TextInfo::Part part;
  part.tokens = set.tokens.size();
  part.documents = std::max<std::size_t>(1, set.documents.size());
  if (tokenizer == nullptr) return part;
  std::vector<std::uint16_t> characters(tokenizer->size());  // that begin in each token
  for (std::size_t token = 0; token < characters.size(); ++token)
    for (const char c : tokenizer->decode_one(static_cast<std::uint16_t>(token)))
      if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++characters[token];
  part.characters = 0;
  for (const std::uint16_t token : set.tokens) *part.characters += characters[token];
  return part;
}

// Shown: at most this many characters, and '?' for each that cannot be printed.
std::string first_line_of(const Dataset& set, const text::Tokenizer& tokenizer) {
  constexpr std::size_t kMost = 100, kTokens = 4096;  // of a line of mostly short tokens
  const std::string start =
      tokenizer.decode(std::span(set.tokens).first(std::min(kTokens, set.tokens.size())));
  const std::size_t begin = start.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  const std::string_view line = std::string_view(start).substr(begin, start.find('\n', begin) - begin);
  std::string shown;
  std::size_t count = 0;
  for (std::size_t at = 0; at < line.size() && count < kMost; ++count) {
    const std::size_t from = at;
    if (!next_character(line, at)) at = from + 1;
    const std::string_view character = line.substr(from, at - from);
    shown += is_printable(character) ? character : "?";
    if (count + 1 == kMost && at < line.size()) shown += "...";
  }
  return shown;
}

}  // namespace

Info info_of(const DataPair& pair) {
  Info info{description_of(pair), {}, {}, pair.train.memory_bytes() + pair.test.memory_bytes(), {}};
  if (pair.train.is_text()) {
    const text::Tokenizer* tokenizer = pair.tokenizer.get();
    info.text = TextInfo{describe_part(pair.train, tokenizer), describe_part(pair.test, tokenizer),
                         tokenizer ? std::string(tokenizer->kind()) : "",
                         tokenizer ? first_line_of(pair.train, *tokenizer) : ""};
    return info;
  }
  info.train_per_class = count_classes(pair.train, info.classes);
  info.test_per_class = count_classes(pair.test, info.classes);
  return info;
}

std::vector<double> means_of(const Description& data) {
  std::vector<double> means;
  for (std::size_t c = 0; c < data.normalization.size(); ++c)
    means.push_back((data.offsets.empty() ? 0 : data.offsets[c]) +
                    static_cast<double>(data.normalization[c].mean));
  return means;
}

std::vector<double> deviations_of(const Description& data) {
  std::vector<double> deviations;
  for (const Normalization& n : data.normalization) deviations.push_back(static_cast<double>(n.deviation));
  return deviations;
}

std::string size_text(const DataPair& pair) {
  const auto sum = [](std::size_t train, std::size_t test) {
    return std::to_string(train) + " + " + std::to_string(test);
  };
  const std::string classes = std::to_string(pair.train.classes);
  if (pair.train.is_text())
    return sum(pair.train.tokens.size(), pair.test.tokens.size()) + " tokens, a vocabulary of " + classes;
  return sum(pair.train.size(), pair.test.size()) + " samples, " + classes + " classes";
}

std::string draw_sample(const Dataset& set, std::size_t index, std::size_t rows_max) {
  STARLING_CHECK(!set.is_text() && index < set.size() && rows_max > 0);
  constexpr std::string_view kShades = " .:-=+*#%@";
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const auto height = static_cast<std::size_t>(set.shape.height),
             width = static_cast<std::size_t>(set.shape.width);
  const std::size_t plane = set.shape.plane(), begin = index * channels * plane;
  std::vector<double> gray(plane);  // sums over the channels
  for (std::size_t i = 0; i < channels * plane; ++i)
    gray[i % plane] +=
        set.has_floats() ? static_cast<double>(set.features[begin + i]) : set.images[begin + i];
  const auto [least, most] = std::minmax_element(gray.begin(), gray.end());
  const double low = set.has_floats() ? *least : 0;
  const double range = *most > low ? *most - low : 1;
  const std::size_t rows = std::min(height, rows_max),
                    columns = std::max<std::size_t>(1, width * rows / height);
  std::string text;
  text.reserve(rows * (2 * columns + 1));
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < columns; ++x) {
      double sum = 0, pixels = 0;
      for (std::size_t v = y * height / rows; v < (y + 1) * height / rows; ++v)
        for (std::size_t u = x * width / columns; u < (x + 1) * width / columns; ++u)
          sum += gray[v * width + u], ++pixels;
      sum /= pixels;
      const double byte =
          set.has_floats() ? 255 * ((sum - low) / range) : sum / static_cast<double>(channels);
      text.append(2, kShades[static_cast<std::size_t>(byte * static_cast<double>(kShades.size()) / 256)]);
    }
    text += '\n';
  }
  return text;
}

std::string list_sample(const Dataset& set, std::size_t index, std::size_t most) {
  STARLING_CHECK(!set.is_text() && index < set.size());
  constexpr double kLarge = 1e5;  // from here on, six digits lose differences of one
  const auto size = static_cast<std::size_t>(set.shape.size());
  std::string text;
  for (std::size_t i = 0; i < std::min(size, most); ++i) {
    char number[32];
    const std::size_t at = index * size + i;
    if (set.has_floats()) {
      const double value = static_cast<double>(set.features[at]) + set.offset_of(i);
      std::snprintf(number, sizeof number, std::abs(value) < kLarge ? "%.6g" : "%.10g", value);
    } else {
      std::snprintf(number, sizeof number, "%d", set.images[at]);
    }
    if (i > 0) text += ' ';
    text += number;
  }
  return text + (size > most ? " ...\n" : "\n");
}

}  // namespace starling::datasets
