// A summary of a loaded data set, for `starling data info`, and one of its samples as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/description.h"

namespace starling::datasets {

// Of a text.
struct TextInfo {
  struct Part {
    std::size_t tokens = 0, documents = 0;
    std::optional<std::uint64_t> characters;  // unknown without a tokenizer
  };
  Part train, test;
  std::string tokenizer;   // its kind; empty: unknown
  std::string first_line;  // of the training text that is not blank, shortened, without control characters
};

struct Info : Description {
  std::vector<std::size_t> train_per_class, test_per_class;  // [classes]; empty for a text
  std::size_t memory_bytes = 0;                              // both sets
  std::optional<TextInfo> text;
};

Info info_of(const DataPair& pair);

// Of each channel, as the values were read.
std::vector<double> means_of(const Description& data);
std::vector<double> deviations_of(const Description& data);

// "60000 + 10000 samples, 10 classes", or "1003854 + 111540 tokens, a vocabulary of 65".
std::string size_text(const DataPair& pair);

// The image in characters from ' ' (0; for floats the image's least value) to '@' (255; for floats its
// greatest value). A pixel is two columns, because characters are twice as high as wide, and a row is a line.
// Channels are averaged, and so are neighboring pixels if the image has more than `rows_max` rows. REQUIRES:
// an image, index < set.size(), rows_max > 0.
std::string draw_sample(const Dataset& set, std::size_t index, std::size_t rows_max = SIZE_MAX);

// The sample's first `most` values as they were read, then " ..." if there are more, and a newline. REQUIRES:
// an image or a row, index < set.size().
std::string list_sample(const Dataset& set, std::size_t index, std::size_t most);

}  // namespace starling::datasets
