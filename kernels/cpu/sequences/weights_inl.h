// Tiles of attention weights, as part of the text of the loops (loops_inl.h). The queries are lanes, so that
// the softmax of each is a loop over rows of the tile, and no vector is summed across its lanes.

static_assert(kQueries % kWidth == 0);

// Of two values, the first in the lanes of the queries that see a key, and the second in the others.
struct AllSee {
  INLINE V operator()(V value, V) const { return value; }
};
struct LaterSee {
  Whole queries;
  int last;  // that does not see the key
  INLINE V operator()(V value, V other) const { return queries > last ? value : other; }
};

// f(j, seen) for each key j. Lane 0 is query `first`.
template <class F>
INLINE void for_keys(const WeightTile& it, int first, const F& f) {
  const Whole queries = numbers_from(first);
  const int all = it.keys < it.visible ? it.keys : it.visible;
  for (int j = 0; j < all; ++j) f(j, AllSee{});
  for (int j = all; j < it.keys; ++j) f(j, LaterSee{queries, j - it.visible});
}

static void softmax(const WeightTile& it, float* largest, float* sum, float* kept) {
  for (int first = 0; first < kQueries; first += kWidth) {
    float* weights = it.weights + first;
    const V before = load_any(largest + first);
    V most = before;
    for_keys(
        it, first, [&](int j, const auto& seen) __attribute__((always_inline)) {
          const V score = seen(load_any(weights + j * kQueries), before);
          most = score > most ? score : most;
        });
    const V factor = exp_of(before - most);
    V total = load_any(sum + first) * factor;
    for_keys(
        it, first, [&](int j, const auto& seen) __attribute__((always_inline)) {
          const V weight = seen(exp_of(load_any(weights + j * kQueries) - most), V{});
          store_any(weights + j * kQueries, weight);
          total += weight;
        });
    store_any(largest + first, most);
    store_any(sum + first, total);
    store_any(kept + first, factor);
  }
}

static void softmax_again(const WeightTile& it, const float* denominators) {
  for (int first = 0; first < kQueries; first += kWidth) {
    const V minus = load_any(denominators + first);
    for_keys(
        it, first, [&](int j, const auto& seen) __attribute__((always_inline)) {
          float* weight = it.weights + j * kQueries + first;
          store_any(weight, seen(exp_of(load_any(weight) - minus), V{}));
        });
  }
}

static void softmax_gradient(const WeightTile& it, const float* means, float factor, float* gradients) {
  for (int first = 0; first < kQueries; first += kWidth) {
    const V mean = load_any(means + first);
    for (int j = 0; j < it.keys; ++j) {
      float* gradient = gradients + j * kQueries + first;
      store_any(gradient, load_any(it.weights + j * kQueries + first) * (load_any(gradient) - mean) * factor);
    }
  }
}

static void drop_weights(const WeightTile& it, const Drop& drop, std::uint32_t query_step, float* dropped,
                         float* gradients) {
  for (int first = 0; first < kQueries; first += kWidth) {
    Word index;
    for (int i = 0; i < kWidth; ++i)
      index[i] = drop.first + static_cast<std::uint32_t>(first + i) * query_step;
    for (int at = first; at < it.keys * kQueries; at += kQueries, index += 1) {
      const Word bits = mixed(mixed(index ^ drop.key[0]) ^ drop.key[1]);
      const V weight = load_any(it.weights + at) * drop.factor;
      store_any(dropped + at, bits >= drop.dropped ? weight : V{});
      if (gradients == nullptr) continue;
      const V gradient = load_any(gradients + at) * drop.factor;
      store_any(gradients + at, bits >= drop.dropped ? gradient : V{});
    }
  }
}
