// The description of the data in a model's file.
#include "training/learning/data_facts.h"

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::training {
namespace {

datasets::DataPair table() {
  datasets::Dataset set;
  set.shape = {2, 1, 1};
  set.classes = 2;
  set.features = {0.25F, -1, 1, 3};
  set.labels = {0, 1};
  set.offsets = {1700000000.125, 0};
  set.normalization = {{0.1F, 0.7F}, {1, 2}};
  datasets::DataPair pair{"t", set, set};
  pair.origin = {"CSV", "column 3 (\"kind\")", {"u", "a \"v\""}, {"ash", "öak"}, {"one decision"}};
  return pair;
}

}  // namespace

TEST_CASE("a description returns from a file's metadata to the last digit") {
  const datasets::DataPair pair = table();
  const Facts facts = data_facts(pair);
  CHECK(facts.at("data") == "t");
  CHECK_FALSE(facts.contains("tokenizer"));
  const auto given = given_by("m.safetensors", facts);
  INFO((given.ok() ? "" : given.error().message));
  REQUIRE(given.ok());
  REQUIRE(given->of_model != nullptr);
  const datasets::Description& read = *given->of_model;
  const datasets::Description written = datasets::description_of(pair);
  CHECK(read.name == "t");
  CHECK(read.is_rows());
  CHECK(read.floats);
  CHECK(read.shape == written.shape);
  CHECK(read.classes == 2);
  CHECK(read.offsets == written.offsets);
  CHECK(read.normalization == written.normalization);
  CHECK(read.source == "CSV");
  CHECK(read.label == written.label);
  CHECK(read.columns == written.columns);
  CHECK(read.class_names == written.class_names);
  CHECK(read.decisions == written.decisions);
  CHECK(read.train_samples == 2);
  CHECK(read.test_samples == 2);
  CHECK(read.fingerprint == written.fingerprint);
}

TEST_CASE("a file without a description gives none, and its normalization is missed") {
  const auto given = given_by("m", Facts{{"model", "softmax"}});
  REQUIRE(given.ok());
  CHECK(given->of_model == nullptr);
  CHECK(contains(warning_of_description("m", *given, table()),
                 "m does not contain the means and deviations of its training data; the ones of t are used"));
  CHECK(warning_of_description("m", *given_by("m", data_facts(table())), table()).empty());
}

TEST_CASE("a wrong description is refused with its field") {
  const std::string good = data_facts(table()).at("description");
  const auto wrong = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto given = given_by("m", Facts{{"description", text}});
    REQUIRE_FALSE(given.ok());
    return given.error().message;
  };
  CHECK(contains(wrong("\"rows\"", "\"column\""), "m: its description of the data has a wrong 'kind'"));
  CHECK(contains(wrong("[2,1,1]", "[2,1]"), "'shape'"));
  CHECK(contains(wrong("[2,1,1]", "[2,1,-1]"), "'shape'"));
  CHECK(contains(wrong("[2,1,1]", "[1000000,100000,1000]"), "'shape'"));
  CHECK(contains(wrong("\"classes\":2", "\"classes\":0"), "'classes'"));
  CHECK(contains(wrong("\"classes\":2", "\"classes\":257"), "'classes'"));
  CHECK(contains(wrong("[\"ash\",", "[1,"), "'class_names'"));
  CHECK(contains(wrong("[\"ash\",\"\\u00f6ak\"]", "[\"ash\"]"), "'class_names'"));
  CHECK(contains(wrong("\"mean\":[", "\"mean\":[1,"), "'mean'"));
  CHECK(contains(wrong("\"deviation\":[0.", "\"deviation\":[-0."), "'deviation'"));
  CHECK(contains(wrong("\"deviation\":[0.", "\"deviation\":[1e-300,0."), "'deviation'"));
  CHECK(contains(wrong("\"offset\":[", "\"offset\":[1,"), "'offset'"));
  CHECK(contains(wrong("[2,1,1]", "[2,1,2]"), "'offset'"));  // only rows have one for each value
  CHECK(contains(wrong("\"offset\":[1700000000.125", "\"offset\":[1e300"), "'offset'"));
  CHECK(contains(wrong("\"columns\":[\"u\",", "\"columns\":["), "'columns'"));
  CHECK(contains(wrong("\"fingerprint\":\"", "\"fingerprint\":\"x"), "'fingerprint'"));
  CHECK(contains(wrong("[\"ash\",\"\\u00f6ak\"]", "[\"ash\",\"ash\"]"), "'class_names'"));
  CHECK(contains(wrong("\"values\":\"floats\"", "\"values\":\"float\""), "'values'"));
  CHECK(contains(wrong("{", "["), "is not JSON"));
}

TEST_CASE("a description that is too long for a header leaves the columns and their normalization out") {
  datasets::Dataset set;
  constexpr int kColumns = 400'000;
  set.shape = {kColumns, 1, 1};
  set.classes = 2;
  set.features.assign(kColumns, 0.1F);
  set.labels = {1};
  set.normalization.assign(kColumns, {0.1234567F, 0.7654321F});
  const auto given = given_by("m", data_facts(datasets::DataPair{"wide", set, set}));
  REQUIRE(given.ok());
  CHECK(given->of_model->normalization.empty());
  CHECK(given->of_model->shape.channels == kColumns);
}

}  // namespace starling::training
