// Random crops and horizontal flips of training images, a batch at a time, so that a network seldom sees the
// same image twice. Test images are never changed.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "datasets/dataset.h"
#include "training/experiment/experiment.h"

namespace starling::training {

struct Augmentation {
  std::uint32_t crop = 0;  // pixels of padding on each side; 0: no crop
  bool flip = false;
  bool any() const { return crop > 0 || flip; }
};

// What the experiment asks for, of images of this shape. An Error where they are vectors (1x1 images of many
// channels), or the padding is more than half of an image.
Result<Augmentation> make_augmentation(const Experiment& experiment, const datasets::ImageShape& shape);

// Every image is padded with black, `crop` pixels on each of its four sides, and a part of its own size is
// cut out at one of the (2 crop + 1)^2 places, each as likely; then, with chance 1/2, it is mirrored left to
// right (He et al., "Deep residual learning", 2016, section 4.2, as PyTorch's RandomCrop and
// RandomHorizontalFlip do it). All channels of an image alike.
class Augmenter {
 public:
  // `data` tells the images' shape, and what black is once it is normalized: (0 - mean) / deviation of its
  // channel. REQUIRES: 2 crop <= height and width.
  Augmenter(const datasets::Dataset& data, Augmentation augmentation, Random random);

  // What becomes of the next image: the row and the column at which the part that is cut out begins, which may
  // lie in the padding (negative ones do), and whether it is mirrored then.
  struct Change {
    int down = 0, right = 0;
    bool mirrored = false;
  };
  Change draw();

  // Where its chance stands.
  const Random& random() const { return random_; }
  void set_random(const Random& random) { random_ = random; }

  // Changes `count` images as Dataset::gather() writes them, in place, each as draw() says in their order.
  void change(float* images, std::size_t count);

 private:
  void change_plane(float* plane, const Change& change, float black);

  Augmentation augmentation_;
  std::size_t height_, width_;
  std::vector<float> black_;  // per channel
  std::vector<float> plane_;  // one channel of an image, as it was
  Random random_;
};

}  // namespace starling::training
