#include "datasets/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/random.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kPixels = kGlyphSide * kGlyphSide;

struct Point {
  float x, y;  // glyph coordinates: [-1, 1], y downwards
};
using Polyline = std::vector<Point>;

struct Shape {
  const char* name;
  std::vector<Polyline> strokes;
};

Polyline circle(float cx, float cy, float radius, int corners) {
  Polyline line;
  for (int i = 0; i <= corners; ++i) {
    const double angle = 2 * std::numbers::pi * (i % corners) / corners;
    line.push_back({cx + radius * static_cast<float>(std::cos(angle)),
                    cy + radius * static_cast<float>(std::sin(angle))});
  }
  return line;
}

const std::array<Shape, kGlyphClasses>& shapes() {
  static const std::array<Shape, kGlyphClasses> all = {{
      {"ring", {circle(0, 0, 0.8f, 14)}},
      {"lollipop", {circle(0, -0.45f, 0.5f, 10), {{0, 0.05f}, {0, 1}}}},
      {"inverted lollipop", {circle(0, 0.45f, 0.5f, 10), {{0, -0.05f}, {0, -1}}}},
      {"cross", {{{0, -0.95f}, {0, 0.95f}}, {{-0.8f, 0}, {0.8f, 0}}}},
      {"T", {{{0, -0.85f}, {0, 0.95f}}, {{-0.8f, -0.85f}, {0.8f, -0.85f}}}},
      {"inverted T", {{{0, 0.85f}, {0, -0.95f}}, {{-0.8f, 0.85f}, {0.8f, 0.85f}}}},
      {"zigzag", {{{-0.7f, -0.85f}, {0.7f, -0.85f}, {-0.7f, 0.85f}, {0.7f, 0.85f}}}},
      {"mirrored zigzag", {{{0.7f, -0.85f}, {-0.7f, -0.85f}, {0.7f, 0.85f}, {-0.7f, 0.85f}}}},
      {"H", {{{-0.65f, -0.9f}, {-0.65f, 0.9f}}, {{0.65f, -0.9f}, {0.65f, 0.9f}}, {{-0.65f, 0}, {0.65f, 0}}}},
      {"N", {{{-0.65f, 0.9f}, {-0.65f, -0.9f}, {0.65f, 0.9f}, {0.65f, -0.9f}}}},
  }};
  return all;
}

// How far an image may differ from the plain glyph. The ranges are tuned so that a linear model fails,
// because the position of a stroke does not determine the class, and a LeNet succeeds.
struct Variation {
  double turn = 0.45;            // radians, either way
  double shear = 0.25;           // either way
  double half_extent_least = 6;  // pixels, drawn separately for width and height
  double half_extent_most = 9;
  double shift = 2.5;           // pixels, either way, in x and y
  double corner_jitter = 0.14;  // glyph coordinates, either way
  double radius_least = 0.7;    // pixels, half the stroke's thickness
  double radius_most = 1.5;
  double ink_least = 0.4;     // of full white
  int strays_most = 2;        // stray strokes
  double stray_chance = 0.9;  // of each of them
  double noise_most = 0.7;    // greatest amplitude; drawn for each image
};

using Canvas = std::array<float, kPixels>;  // ink in [0, 1]

// Inks the pixels around the segment from a to b (pixel coordinates), with a soft edge one pixel wide.
void draw_segment(Canvas& canvas, Point a, Point b, float radius, float ink) {
  const float outer = radius + 0.5f, inner = std::max(0.0f, radius - 0.5f);
  const auto clamp_pixel = [](float v) { return std::clamp(static_cast<int>(v), 0, kGlyphSide - 1); };
  const int x0 = clamp_pixel(std::min(a.x, b.x) - outer), x1 = clamp_pixel(std::max(a.x, b.x) + outer + 1);
  const int y0 = clamp_pixel(std::min(a.y, b.y) - outer), y1 = clamp_pixel(std::max(a.y, b.y) + outer + 1);
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float per_length2 = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
  const float outer2 = outer * outer, per_edge = 1.0f / (outer2 - inner * inner);
  for (int y = y0; y <= y1; ++y) {
    float* row = canvas.data() + y * kGlyphSide;
    const float py = static_cast<float>(y) - a.y;
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) - a.x;
      float t = (px * dx + py * dy) * per_length2;
      t = t < 0 ? 0 : t;
      t = t > 1 ? 1 : t;
      const float ex = px - t * dx, ey = py - t * dy;
      float cover = (outer2 - ex * ex - ey * ey) * per_edge;  // of squared distance: no square root
      cover = cover > 1 ? 1 : cover;
      const float value = cover * ink;
      row[x] = row[x] > value ? row[x] : value;
    }
  }
}

void draw_glyph(Canvas& canvas, const Shape& shape, const Variation& v, Random& random) {
  const double turn = random.uniform(-v.turn, v.turn), shear = random.uniform(-v.shear, v.shear);
  const double width = random.uniform(v.half_extent_least, v.half_extent_most);
  const double height = random.uniform(v.half_extent_least, v.half_extent_most);
  const double c = std::cos(turn), s = std::sin(turn);
  // Rows of rotation * shear * scale, then the shift from the image's middle.
  const float xx = static_cast<float>(c * width), xy = static_cast<float>((c * shear - s) * height);
  const float yx = static_cast<float>(s * width), yy = static_cast<float>((s * shear + c) * height);
  const double middle = (kGlyphSide - 1) / 2.0;
  const float ox = static_cast<float>(middle + random.uniform(-v.shift, v.shift));
  const float oy = static_cast<float>(middle + random.uniform(-v.shift, v.shift));
  const float radius = static_cast<float>(random.uniform(v.radius_least, v.radius_most));
  const float ink = static_cast<float>(random.uniform(v.ink_least, 1));
  for (const Polyline& stroke : shape.strokes) {
    const bool closed = stroke.front().x == stroke.back().x && stroke.front().y == stroke.back().y;
    Point last{};
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      Point p = stroke[i];
      if (!closed) {  // moving the corners of a circle would open it
        p.x += static_cast<float>(random.uniform(-v.corner_jitter, v.corner_jitter));
        p.y += static_cast<float>(random.uniform(-v.corner_jitter, v.corner_jitter));
      }
      const Point at{ox + xx * p.x + xy * p.y, oy + yx * p.x + yy * p.y};
      if (i > 0) draw_segment(canvas, last, at, radius, ink);
      last = at;
    }
  }
}

void draw_stray(Canvas& canvas, Random& random) {
  const Point from{static_cast<float>(random.uniform(1, kGlyphSide - 2)),
                   static_cast<float>(random.uniform(1, kGlyphSide - 2))};
  const Point to{from.x + static_cast<float>(random.uniform(-5, 5)),
                 from.y + static_cast<float>(random.uniform(-5, 5))};
  const float radius = static_cast<float>(random.uniform(0.5, 1));
  const float ink = static_cast<float>(random.uniform(0.3, 0.8));
  draw_segment(canvas, from, to, radius, ink);
}

// Rounds to bytes, with triangular noise: the difference of two uniform bytes for each pixel.
void finish(const Canvas& canvas, double amplitude, Random& random, std::uint8_t* out) {
  std::array<std::uint8_t, 2 * kPixels> chance;
  for (std::size_t i = 0; i < chance.size(); i += 8) {
    const std::uint64_t bits = random.bits();
    for (int b = 0; b < 8; ++b)
      chance[i + static_cast<std::size_t>(b)] = static_cast<std::uint8_t>(bits >> (8 * b));
  }
  const float scale = static_cast<float>(amplitude);
  for (std::size_t i = 0; i < kPixels; ++i) {
    float value = canvas[i] * 255.0f + scale * static_cast<float>(chance[i] - chance[kPixels + i]) + 0.5f;
    value = value < 0 ? 0 : value;
    value = value > 255 ? 255 : value;
    out[i] = static_cast<std::uint8_t>(static_cast<int>(value));
  }
}

// Each image draws from its own stream, so that it does not depend on the others.
Dataset make_set(std::size_t count, const Random& chance) {
  Dataset set;
  set.shape = {1, kGlyphSide, kGlyphSide};
  set.classes = kGlyphClasses;
  set.images.resize(count * kPixels);
  set.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) set.labels[i] = static_cast<std::uint8_t>(i % kGlyphClasses);
  constexpr std::uint64_t kOrder = ~std::uint64_t{0};
  chance.split(kOrder).shuffle(std::span(set.labels));
  const Variation variation;
  for (std::size_t i = 0; i < count; ++i) {
    Random random = chance.split(i);
    Canvas canvas{};
    draw_glyph(canvas, shapes()[set.labels[i]], variation, random);
    for (int stray = 0; stray < variation.strays_most; ++stray)
      if (random.chance(variation.stray_chance)) draw_stray(canvas, random);
    finish(canvas, random.uniform(0, variation.noise_most), random, set.images.data() + i * kPixels);
  }
  return set;
}

}  // namespace

const char* glyph_name(int label) {
  STARLING_CHECK(label >= 0 && label < kGlyphClasses);
  return shapes()[static_cast<std::size_t>(label)].name;
}

DataPair make_glyphs(std::uint64_t seed, std::size_t train, std::size_t test) {
  const Random chance(seed);
  DataPair pair;
  pair.name = seed == 1 ? "glyphs" : "glyphs:seed=" + std::to_string(seed);
  pair.train = make_set(train, chance.split(1));
  pair.test = make_set(test, chance.split(2));
  normalize(pair);
  return pair;
}

}  // namespace starling::datasets
