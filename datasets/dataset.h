// A labelled set of images in memory, as bytes: 60,000 images of 28x28 take 47 MB. Floats are made a batch at
// a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

struct ImageShape {
  int channels = 1, height = 0, width = 0;
  int size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// How the bytes of a channel become floats: (pixel / 255 - mean) / deviation.
struct Normalization {
  float mean = 0, deviation = 1;  // of pixel / 255, over the training images
};

struct Dataset {
  ImageShape shape;
  int classes = 0;
  std::vector<std::uint8_t> images;          // [size(), channels, height, width]
  std::vector<std::uint8_t> labels;          // [size()], each below `classes`
  std::vector<Normalization> normalization;  // [channels]; empty: mean 0 and deviation 1

  std::size_t size() const { return labels.size(); }

  // Writes the chosen samples as normalised floats [indices.size(), channels, height, width] and their
  // labels. REQUIRES: every index < size(); `images_out` and `labels_out` are long enough.
  void gather(std::span<const std::uint32_t> indices, float* images_out, std::int32_t* labels_out) const;
};

// A training and a test set that belong together. Both carry the training set's normalization.
struct DataPair {
  std::string name;  // the catalogue name where it has one ("mnist", "glyphs"), else the folder's name
  Dataset train, test;
};

// Loads a catalogue name ("glyphs", "mnist", "cifar10") or a folder that holds files with their usual names, plain or
// ending in .gz: the four IDX files (idx.h), or CIFAR's binary ones (cifar.h). A catalogue name other than "glyphs" is
// looked for as a folder in $STARLING_DATA (`data_root` here; may be empty).
Result<DataPair> load(const std::string& name_or_path, const std::string& data_root);

// The name under which `load` would file what it finds there, without reading it: peers compare these.
std::string data_name(const std::string& name_or_path);

}  // namespace starling::datasets
