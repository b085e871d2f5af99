// Helpers for the swarm's tests: a temporary folder, and a small data set with its model.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"
#include "datasets/dataset.h"
#include "models/spec.h"

namespace starling::lab {

class SwarmFolder {
 public:
  SwarmFolder() : path_((std::filesystem::temp_directory_path() / "starling-lab-XXXXXX").string()) {
    STARLING_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~SwarmFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  SwarmFolder(const SwarmFolder&) = delete;
  SwarmFolder& operator=(const SwarmFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // A shell script that replaces the program.
  std::string script(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(file(name), std::filesystem::perms::owner_all);
    return file(name);
  }

 private:
  std::string path_;
};

// Two classes of 1x2x2 images. The first class has its first pixel set, the second class its last.
inline datasets::DataPair two_pixels(std::size_t size) {
  datasets::DataPair pair;
  pair.name = "two-pixels";
  for (datasets::Dataset* set : {&pair.train, &pair.test}) {
    set->shape = {1, 2, 2};
    set->classes = 2;
    for (std::size_t i = 0; i < size; ++i) {
      const auto label = static_cast<std::uint8_t>(i % 2);
      set->labels.push_back(label);
      for (std::size_t pixel = 0; pixel < 4; ++pixel) {
        set->images.push_back(pixel == (label == 0 ? 0U : 3U) ? 255 : 0);
      }
    }
  }
  return pair;
}

inline models::Plan softmax_plan(const datasets::DataPair& data) {
  const datasets::ImageShape shape = data.train.shape;
  auto plan = models::make_model("softmax", {shape.channels, shape.height, shape.width}, data.train.classes);
  STARLING_CHECK(plan.ok());
  return std::move(*plan);
}

// Parameters that classify by the first pixel minus the last, times `sign`. All predictions are right with 1
// and wrong with -1.
inline std::vector<float> pixel_rule(const models::Plan& plan, float sign) {
  std::vector<float> arena(plan.layout.arena_size());
  float* weight = arena.data() + plan.layout.tensors()[0].offset;  // [2, 4]
  weight[0] = sign;
  weight[4 + 3] = sign;
  return arena;
}

}  // namespace starling::lab
