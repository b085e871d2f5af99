// A labelled set of samples in memory: images as bytes (60,000 of 28x28 take 47 MB), or images and rows of a
// table as floats. Normalized floats are made a batch at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

// Of one sample. A row of n floats is {n, 1, 1}: each column is a channel, with a mean and a deviation of its
// own.
struct ImageShape {
  int channels = 1, height = 0, width = 0;
  int size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// How the values of a channel become what a model sees: (pixel / 255 - mean) / deviation where they are
// bytes, (value - mean) / deviation where they are floats.
struct Normalization {
  float mean = 0, deviation = 1;  // of pixel / 255, or of the value, over the training samples
};

struct Dataset {
  ImageShape shape;
  int classes = 0;
  // [size(), channels, height, width], in one of the two; the other is empty.
  std::vector<std::uint8_t> images;
  std::vector<float> features;               // all finite
  std::vector<std::uint8_t> labels;          // [size()], each below `classes`
  std::vector<Normalization> normalization;  // [channels]; empty: mean 0 and deviation 1

  std::size_t size() const { return labels.size(); }
  bool has_floats() const { return !features.empty(); }
  std::size_t memory_bytes() const;  // of the samples and their labels

  // Writes the chosen samples as normalized floats [indices.size(), channels, height, width] and their
  // labels. REQUIRES: every index < size(); `images_out` and `labels_out` are long enough.
  void gather(std::span<const std::uint32_t> indices, float* images_out, std::int32_t* labels_out) const;
};

// A training and a test set that belong together. Both carry the training set's normalization.
struct DataPair {
  std::string name;  // the catalogue name where it has one ("mnist", "glyphs"), else as data_name() says
  Dataset train, test;
};

// Loads a catalogue name ("glyphs", "mnist", "cifar10"), a folder that holds files with their usual names, or
// a CSV file, all plain or ending in .gz: the four IDX files (idx.h), CIFAR's binary ones (cifar.h), four
// NumPy arrays (npy.h), or CSV (csv.h), where ":label=NAME" or ":label=NUMBER" behind the path chooses the
// column of the labels. A name without a slash, other than "glyphs", is looked for in $STARLING_DATA first
// (`data_root` here; may be empty), there also with .csv or .csv.gz behind it.
Result<DataPair> load(const std::string& name_or_path, const std::string& data_root);

// The name under which `load` would file what it finds there, without reading it: peers compare these. A
// path's last part, without the ending of a CSV file unless a catalogue entry has that name, and with the
// label option.
std::string data_name(const std::string& name_or_path);

}  // namespace starling::datasets
