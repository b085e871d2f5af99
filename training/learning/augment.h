// Random crops and horizontal flips of training images, a batch at a time, so that a network rarely gets the
// same image twice. Test images are never changed.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "datasets/dataset.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

struct Augmentation {
  std::uint32_t crop = 0;  // pixels of padding on each side; 0: no crop
  bool flip = false;
  // A window of a text begins at a place that is drawn between the beginnings of two contiguous windows.
  bool shift = false;
  bool any() const { return crop > 0 || flip || shift; }
};

// The experiment's augmentation for this data. Error if images are to be changed and the samples are not
// images (or are vectors, 1x1 images of many channels), or if the padding is more than half of an image.
Result<Augmentation> make_augmentation(const Experiment& experiment, const datasets::Dataset& data);

// Every image is padded with black, `crop` pixels on each of its four sides, and a part of its own size is
// cut out at one of the (2 crop + 1)^2 places, all equally likely; then, with probability 1/2, it is mirrored
// left to right (He et al., "Deep residual learning", 2016, section 4.2, as PyTorch's RandomCrop and
// RandomHorizontalFlip do it), in all channels alike.
class Augmenter {
 public:
  // `data` has the images' shape, and the normalized value of black, (0 - mean) / deviation of its channel.
  // REQUIRES: 2 crop <= height and width.
  Augmenter(const datasets::Dataset& data, Augmentation augmentation, Random random);

  // The change of the next image: the row and column where the crop begins, negative in the padding, and
  // whether it is mirrored afterwards.
  struct Change {
    int down = 0, right = 0;
    bool mirrored = false;
    std::uint32_t later = 0;  // tokens by which a window of a text is shifted
  };
  Change draw();

  // The state of the random numbers.
  const Random& random() const { return random_; }
  void set_random(const Random& random) { random_ = random; }

  // Changes `count` images of Dataset::gather() in place, each by the next draw().
  void change(float* images, std::size_t count);

 private:
  void change_plane(float* plane, const Change& change, float black);

  Augmentation augmentation_;
  std::size_t height_, width_;
  std::uint32_t context_;
  std::vector<float> black_;  // per channel
  std::vector<float> plane_;  // one channel of an image, as it was
  Random random_;
};

}  // namespace starling::training
