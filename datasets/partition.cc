#include "datasets/partition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "base/random.h"
#include "base/text.h"

namespace starling::datasets {
namespace {

using Indices = std::vector<std::uint32_t>;

constexpr double kAlphaLeast = 1e-3, kAlphaMost = 1e4;

constexpr std::array<std::string_view, 6> kNames = {"iid",      "whole",       "contiguous",
                                                    "by-label", "by-document", "dirichlet:alpha=0.1"};
constexpr std::array<std::string_view, 4> kTextNames = {"iid", "whole", "contiguous", "by-document"};

enum class Scheme { iid, whole, contiguous, by_label, by_document, dirichlet };
struct Method {
  Scheme kind;
  double alpha = 0;  // of dirichlet
};

Result<Method> parse(std::string_view name) {
  if (name == "iid") return Method{Scheme::iid};
  if (name == "whole") return Method{Scheme::whole};
  if (name == "contiguous") return Method{Scheme::contiguous};
  if (name == "by-label") return Method{Scheme::by_label};
  if (name == "by-document") return Method{Scheme::by_document};
  const auto parts = split_option(name);
  if (parts.base == "dirichlet") {
    const auto alpha = parts.key == "alpha" ? parse_number<double>(parts.value) : std::nullopt;
    if (!alpha || *alpha < kAlphaLeast || *alpha > kAlphaMost)
      return Error{"partition '" + std::string(name) + "': dirichlet takes an alpha from " +
                   format_number(kAlphaLeast) + " to " + format_number(kAlphaMost) +
                   ", as in 'dirichlet:alpha=0.1'"};
    return Method{Scheme::dirichlet, *alpha};
  }
  return Error{"partition '" + std::string(name) + "' is unknown; accepted are " + one_of(kNames)};
}

Indices everything(std::size_t size) {
  Indices all(size);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// The slot-th of `slots` consecutive parts whose sizes differ by one at most.
Indices cut(const Indices& order, std::size_t slots, std::size_t slot) {
  const auto edge = [&](std::size_t s) {
    return order.begin() + static_cast<std::ptrdiff_t>(order.size() * s / slots);
  };
  return Indices(edge(slot), edge(slot + 1));
}

// log of a Gamma(shape, 1) draw: Marsaglia & Tsang, "A simple method for generating gamma variables" (ACM
// TOMS 26, 2000), with their boost G(a) = G(a + 1) U^(1/a). As a logarithm, because U^(1/a) underflows at
// small shapes.
double log_gamma_draw(double shape, Random& random) {
  const double d = shape + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v) + std::log(1 - random.uniform()) / shape;
  }
}

std::vector<double> dirichlet_draw(double alpha, std::size_t n, Random& random) {
  std::vector<double> p(n);
  for (double& value : p) value = log_gamma_draw(alpha, random);
  const double most = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - most);
  for (double& value : p) value /= sum;
  return p;
}

// All slots; an empty one takes a sample from the largest.
std::vector<Indices> split_dirichlet(const Indices& order, const Dataset& train, double alpha,
                                     std::size_t slots, Random& random) {
  std::vector<Indices> classes(256), parts(slots);
  for (const std::uint32_t index : order) classes[train.labels[index]].push_back(index);
  for (const Indices& members : classes) {
    if (members.empty()) continue;
    const auto share = dirichlet_draw(alpha, slots, random);
    double sum = 0;
    std::size_t begin = 0;
    for (std::size_t s = 0; s < slots; ++s) {
      sum += share[s];
      const auto rounded = static_cast<std::size_t>(std::llround(sum * static_cast<double>(members.size())));
      const std::size_t end = s + 1 == slots ? members.size() : std::clamp(rounded, begin, members.size());
      parts[s].insert(parts[s].end(), members.begin() + static_cast<std::ptrdiff_t>(begin),
                      members.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
  }
  for (Indices& part : parts) {
    if (!part.empty()) continue;
    auto fullest = std::max_element(parts.begin(), parts.end(),
                                    [](const Indices& a, const Indices& b) { return a.size() < b.size(); });
    part.push_back(fullest->back());
    fullest->pop_back();
  }
  return parts;
}

// The first window of each document that has one, and the number of all windows at the end.
Indices first_windows(const Dataset& text) {
  const auto windows = static_cast<std::uint32_t>(text.size());
  Indices first;
  for (const std::uint32_t begin : text.documents) {
    const auto window = static_cast<std::uint32_t>((begin + std::uint64_t{text.context} - 1) / text.context);
    if (window >= windows) break;
    if (!first.empty() && first.back() == window) continue;  // no window begins in the document before
    first.push_back(window);
  }
  if (first.empty()) first.push_back(0);
  first.push_back(windows);
  return first;
}

// The windows of the documents of one slot.
Result<Indices> split_documents(const Dataset& text, std::size_t slots, std::size_t slot, Random& random) {
  const Indices first = first_windows(text);
  Indices order = everything(first.size() - 1);
  if (slots > order.size())
    return Error{"partition 'by-document' cannot divide " + std::to_string(order.size()) +
                 (order.size() == 1 ? " document" : " documents") + " among " + std::to_string(slots) +
                 " peers; use at most one peer per document, or 'contiguous'"};
  random.shuffle(std::span(order));
  const auto length = [&](std::uint32_t document) { return first[document + 1] - first[document]; };
  std::ranges::stable_sort(order, std::greater(), length);
  std::vector<std::size_t> windows(slots);
  Indices mine;
  for (const std::uint32_t document : order) {
    const auto least = std::ranges::min_element(windows);
    *least += length(document);
    if (static_cast<std::size_t>(least - windows.begin()) != slot) continue;
    for (std::uint32_t window = first[document]; window < first[document + 1]; ++window)
      mine.push_back(window);
  }
  return mine;
}

Status check_kind(const Dataset& train, Scheme scheme, std::string_view name) {
  if (train.is_text() && (scheme == Scheme::by_label || scheme == Scheme::dirichlet))
    return Error{"partition '" + std::string(name) +
                 "' needs labeled samples, and the data is a text, which takes " + one_of(kTextNames)};
  if (!train.is_text() && scheme == Scheme::by_document)
    return Error{
        "partition 'by-document' needs a text; this data takes iid, whole, contiguous, by-label or "
        "dirichlet:alpha=0.1"};
  return Done{};
}

}  // namespace

Result<Indices> partition(const Dataset& train, std::string_view name, int slots, int slot,
                          std::uint64_t seed) {
  const auto method = parse(name);
  if (!method) return method.error();
  if (slots < 1 || slot < 0)
    return Error{"slot " + std::to_string(slot) + " of " + std::to_string(slots) +
                 " does not exist; slots are numbered from 0, and there must be at least one"};
  if (const Status sound = check_kind(train, method->kind, name); !sound) return sound.error();
  if (method->kind == Scheme::whole) return everything(train.size());
  const auto parts = static_cast<std::size_t>(slots);
  const std::size_t part = static_cast<std::size_t>(slot) % parts;
  if (parts > train.size())
    return Error{"partition '" + std::string(name) + "' cannot divide " + std::to_string(train.size()) +
                 " samples among " + std::to_string(slots) +
                 " peers; use at most one peer per sample, or 'whole'"};

  if (method->kind == Scheme::contiguous) return cut(everything(train.size()), parts, part);
  Random random = Random(seed).split(0x706172746974696f);  // independent of other draws from the run's seed
  if (method->kind == Scheme::by_document) return split_documents(train, parts, part, random);
  Indices order = everything(train.size());
  random.shuffle(std::span(order));
  if (method->kind == Scheme::by_label) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return train.labels[a] < train.labels[b]; });
  } else if (method->kind == Scheme::dirichlet) {
    return std::move(split_dirichlet(order, train, method->alpha, parts, random)[part]);
  }
  return cut(order, parts, part);
}

Status check_partition_name(std::string_view name) {
  const auto method = parse(name);
  if (!method) return method.error();
  return Done{};
}

}  // namespace starling::datasets
