#include "datasets/partition.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/catch.h"

namespace starling::datasets {
namespace {

// Samples without pixels, label i mod 10.
Dataset labels_only(int count = 1003) {
  Dataset set;
  set.classes = 10;
  for (int i = 0; i < count; ++i) set.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return set;
}

std::vector<std::vector<std::uint32_t>> all_slots(const Dataset& set, const std::string& name, int slots,
                                                  std::uint64_t seed = 1) {
  std::vector<std::vector<std::uint32_t>> parts;
  for (int slot = 0; slot < slots; ++slot) {
    auto part = partition(set, name, slots, slot, seed);
    REQUIRE(part.ok());
    parts.push_back(*part);
  }
  return parts;
}

std::size_t classes_in(const Dataset& set, const std::vector<std::uint32_t>& part) {
  std::set<int> seen;
  for (const auto i : part) seen.insert(set.labels[i]);
  return seen.size();
}

}  // namespace

TEST_CASE("every splitting partition gives each sample to exactly one slot, and every slot has samples") {
  const auto set = labels_only(203);
  for (const std::string name : {"iid", "contiguous", "by-label", "dirichlet:alpha=0.1",
                                 "dirichlet:alpha=0.001", "dirichlet:alpha=100"}) {
    for (const int slots : {1, 2, 7, 64, 203}) {
      CAPTURE(name, slots);
      std::vector<std::uint32_t> together;
      for (const auto& part : all_slots(set, name, slots)) {
        REQUIRE_FALSE(part.empty());
        together.insert(together.end(), part.begin(), part.end());
      }
      std::sort(together.begin(), together.end());
      REQUIRE(together.size() == set.size());
      for (std::uint32_t i = 0; i < together.size(); ++i) REQUIRE(together[i] == i);
    }
  }
}

TEST_CASE("iid, contiguous and by-label slots differ in size by at most one") {
  for (const std::string name : {"iid", "contiguous", "by-label"}) {
    std::size_t least = ~std::size_t{0}, most = 0;
    for (const auto& part : all_slots(labels_only(), name, 7)) {
      least = std::min(least, part.size());
      most = std::max(most, part.size());
    }
    REQUIRE(least == 143);
    REQUIRE(most == 144);
  }
}

TEST_CASE("a partition is a function of the seed, and slot numbers wrap around") {
  const auto set = labels_only();
  for (const std::string name : {"iid", "by-label", "dirichlet:alpha=0.5"}) {
    REQUIRE(*partition(set, name, 4, 2, 9) == *partition(set, name, 4, 2, 9));
    REQUIRE(*partition(set, name, 4, 2, 9) != *partition(set, name, 4, 2, 10));
    REQUIRE(*partition(set, name, 4, 2, 9) == *partition(set, name, 4, 6, 9));
    REQUIRE(*partition(set, name, 4, 2, 9) != *partition(set, name, 4, 3, 9));
  }
}

TEST_CASE("the partition whole gives every slot all samples") {
  const auto set = labels_only();
  for (const auto& part : all_slots(set, "whole", 3)) REQUIRE(part.size() == set.size());
}

TEST_CASE("by-label gives a slot few classes, iid all, and a smaller alpha fewer than a larger one") {
  const auto set = labels_only();
  for (const auto& part : all_slots(set, "by-label", 10)) REQUIRE(classes_in(set, part) <= 2);
  for (const auto& part : all_slots(set, "iid", 10)) REQUIRE(classes_in(set, part) == 10);
  const auto mean_classes = [&](const std::string& name) {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      for (const auto& part : all_slots(set, name, 10, seed))
        sum += static_cast<double>(classes_in(set, part));
    return sum / 200;
  };
  const double unlike = mean_classes("dirichlet:alpha=0.05"), between = mean_classes("dirichlet:alpha=0.5"),
               alike = mean_classes("dirichlet:alpha=50");
  CAPTURE(unlike, between, alike);
  REQUIRE(unlike < 4);
  REQUIRE(between > unlike + 1);
  REQUIRE(alike > 9.9);
}

TEST_CASE("Dirichlet shares have the variance that alpha determines") {
  // A class of 1,000 over 4 slots: a share has mean 1/4 and variance (1/4)(3/4)/(4 alpha + 1).
  Dataset set;
  set.classes = 1;
  set.labels.assign(1000, 0);
  for (const double alpha : {0.3, 1.0, 5.0}) {
    double sum = 0, squares = 0;
    const int draws = 2000;
    for (int seed = 0; seed < draws; ++seed) {
      const auto part =
          partition(set, "dirichlet:alpha=" + std::to_string(alpha), 4, 1, static_cast<std::uint64_t>(seed));
      const double share = static_cast<double>(part->size()) / 1000;
      sum += share;
      squares += share * share;
    }
    const double mean = sum / draws, variance = squares / draws - mean * mean;
    CAPTURE(alpha, mean, variance);
    CHECK(std::abs(mean - 0.25) < 0.02);
    CHECK(std::abs(variance / (0.1875 / (4 * alpha + 1)) - 1) < 0.1);
  }
}

// A text with documents of these lengths, in windows of `context` tokens.
Dataset documents_of(const std::vector<std::uint32_t>& lengths, std::uint32_t context) {
  Dataset set;
  set.classes = 2;
  std::uint32_t tokens = 0;
  for (const std::uint32_t length : lengths) {
    set.documents.push_back(tokens);
    tokens += length;
  }
  set.tokens.assign(tokens, 1);
  set.set_context(context);
  return set;
}

TEST_CASE("contiguous slots are neighboring samples in order") {
  for (const Dataset& set : {labels_only(10), documents_of({31}, 3)}) {
    const auto parts = all_slots(set, "contiguous", 4);
    CHECK(parts == std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 3, 4}, {5, 6}, {7, 8, 9}});
    CHECK(all_slots(set, "contiguous", 4, 2) == parts);
  }
}

TEST_CASE("by-document gives whole documents to slots with nearly equal numbers of tokens") {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t i = 0; i < 60; ++i) lengths.push_back(5 + i * 37 % 101);
  const Dataset set = documents_of(lengths, 8);
  const auto document_of = [&](std::uint32_t window) {
    const auto after = std::upper_bound(set.documents.begin(), set.documents.end(), window * 8);
    return after - set.documents.begin() - 1;
  };
  for (const int slots : {1, 2, 7}) {
    std::vector<std::uint32_t> together;
    std::set<std::ptrdiff_t> seen;
    std::size_t least = set.size(), most = 0;
    for (const auto& part : all_slots(set, "by-document", slots)) {
      std::set<std::ptrdiff_t> mine;
      for (const std::uint32_t window : part) mine.insert(document_of(window));
      for (const std::ptrdiff_t document : mine) REQUIRE(seen.insert(document).second);
      least = std::min(least, part.size());
      most = std::max(most, part.size());
      together.insert(together.end(), part.begin(), part.end());
    }
    std::sort(together.begin(), together.end());
    REQUIRE(together.size() == set.size());
    for (std::uint32_t i = 0; i < together.size(); ++i) REQUIRE(together[i] == i);
    CHECK(most - least <= 2);
  }
  CHECK(*partition(set, "by-document", 3, 1, 5) == *partition(set, "by-document", 3, 1, 5));
  CHECK(*partition(set, "by-document", 3, 1, 5) != *partition(set, "by-document", 3, 1, 6));
}

TEST_CASE(
    "a document in which no window begins counts for none, and more slots than documents are an error") {
  const Dataset set = documents_of({10, 2, 3, 6, 1}, 8);  // windows begin at 0 and 8: both in the first
  REQUIRE(set.size() == 2);
  CHECK(*partition(set, "by-document", 1, 0, 1) == std::vector<std::uint32_t>{0, 1});
  CHECK(
      partition(set, "by-document", 2, 0, 1).error().message ==
      "partition 'by-document' cannot divide 1 document among 2 peers; use at most one peer per document, or "
      "'contiguous'");
}

TEST_CASE("a text takes no partition by labels, and other data none by documents") {
  const Dataset text = documents_of({40}, 4);
  for (const std::string name : {"by-label", "dirichlet:alpha=0.1"}) {
    CHECK(partition(text, name, 2, 0, 1).error().message ==
          "partition '" + name +
              "' needs labeled samples, and the data is a text, which takes iid, whole, contiguous or "
              "by-document");
  }
  CHECK(partition(labels_only(), "by-document", 2, 0, 1).error().message.find("needs a text") !=
        std::string::npos);
  CHECK(all_slots(text, "whole", 2)[1].size() == 9);
  CHECK(all_slots(text, "iid", 2)[1].size() == 5);
}

TEST_CASE("unknown names list the accepted ones, and impossible shares give the reason") {
  const auto set = labels_only();
  const auto message = [&](const std::string& name, int slots = 2, int slot = 0) {
    const auto part = partition(set, name, slots, slot, 1);
    REQUIRE_FALSE(part.ok());
    return part.error().message;
  };
  for (const char* name : {"iid", "whole", "contiguous", "by-label", "by-document", "dirichlet:alpha=0.1"}) {
    CHECK(message("even").find(name) != std::string::npos);
    CHECK(check_partition_name(name).ok());
  }
  CHECK_FALSE(check_partition_name("even").ok());
  for (const char* name : {"dirichlet", "dirichlet:alpha", "dirichlet:alpha=0", "dirichlet:alpha=x",
                           "dirichlet:alpha=1e9", "dirichlet:beta=1"})
    CHECK(message(name).find("as in 'dirichlet:alpha=0.1'") != std::string::npos);
  CHECK(message("iid", 2000).find("cannot divide 1003 samples among 2000 peers") != std::string::npos);
  CHECK(message("iid", 0).find("at least one") != std::string::npos);
  CHECK(message("iid", 2, -1).find("numbered from 0") != std::string::npos);
}

}  // namespace starling::datasets
