#include "training/learning/data_facts.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/id_text.h"
#include "base/ids.h"
#include "datasets/text/parse.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

using datasets::Description;
using datasets::Normalization;

constexpr std::size_t kDescriptionBytesMax = std::size_t{4} << 20, kShortDescriptionBytes = 16'384;
constexpr std::uint64_t kClassesMax = 256, kTokensMax = 1 << 16;
constexpr std::size_t kExtentMax = std::size_t{1} << 20;

Json to_json(const Description& data) {
  Json json = {{"kind", data.is_text ? "text" : data.is_rows() ? "rows" : "images"}, {"source", data.source}};
  if (!data.is_text) {
    json["shape"] = {data.shape.channels, data.shape.height, data.shape.width};
    json["values"] = data.floats ? "floats" : "bytes";
  }
  if (!data.label.empty()) json["label"] = data.label;
  if (!data.columns.empty()) json["columns"] = data.columns;
  json["classes"] = data.classes;
  if (!data.class_names.empty()) json["class_names"] = data.class_names;
  if (!data.tokenizer.empty()) json["tokenizer"] = data.tokenizer;
  if (!data.offsets.empty()) json["offset"] = data.offsets;
  for (const auto& [key, member] :
       {std::pair("mean", &Normalization::mean), std::pair("deviation", &Normalization::deviation)}) {
    Json list = Json::array();
    for (const Normalization& n : data.normalization) list.push_back(static_cast<double>(n.*member));
    if (!list.empty()) json[key] = std::move(list);
  }
  json["train_samples"] = data.train_samples;
  json["test_samples"] = data.test_samples;
  json["fingerprint"] = to_string(PeerId{data.fingerprint});
  if (!data.decisions.empty()) json["decisions"] = data.decisions;
  return json;
}

// Reads fields of the JSON; the first one of a wrong type or size ends the reading.
class DescriptionReader {
 public:
  explicit DescriptionReader(const Json& json) : json_(json) {}

  std::string text(const char* key) {
    const Json* value = find(key, &Json::is_string);
    return value == nullptr ? "" : value->get<std::string>();
  }
  std::uint64_t number(const char* key, std::uint64_t most) {
    const Json* value = find(key, &Json::is_number_unsigned);
    const std::uint64_t number = value == nullptr ? 0 : value->get<std::uint64_t>();
    refuse_unless(number <= most, key);
    return number;
  }
  std::vector<std::string> texts(const char* key) {
    return list<std::string>(key, [](const Json& value) { return value.is_string(); });
  }
  // All finite.
  std::vector<double> numbers(const char* key) {
    return list<double>(
        key, [](const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); });
  }
  void refuse_unless(bool right, const char* key) {
    if (!right && wrong_.empty()) wrong_ = key;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const Json* find(const char* key, bool (Json::*is)() const noexcept) {
    const auto found = json_.find(key);
    if (found == json_.end()) return nullptr;
    if ((*found.*is)()) return &*found;
    refuse_unless(false, key);
    return nullptr;
  }
  template <class T, class Is>
  std::vector<T> list(const char* key, Is is) {
    std::vector<T> values;
    const Json* found = find(key, &Json::is_array);
    if (found == nullptr) return values;
    for (const Json& value : *found) {
      refuse_unless(is(value), key);
      if (!wrong_.empty()) return {};
      values.push_back(value.get<T>());
    }
    return values;
  }

  const Json& json_;
  std::string wrong_;
};

void read_shape(DescriptionReader& reader, Description& data) {
  const auto shape = reader.numbers("shape");
  const auto fits = [](double n) { return n >= 1 && n <= kExtentMax && n == std::floor(n); };
  const bool right = shape.size() == 3 && fits(shape[0]) && fits(shape[1]) && fits(shape[2]) &&
                     shape[0] * shape[1] * shape[2] < INT32_MAX;
  reader.refuse_unless(right, "shape");
  if (right)
    data.shape = {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2])};
}

void read_normalization(DescriptionReader& reader, Description& data) {
  data.offsets = reader.numbers("offset");
  const auto means = reader.numbers("mean"), deviations = reader.numbers("deviation");
  const auto channels = static_cast<std::size_t>(data.shape.channels);
  reader.refuse_unless(data.offsets.empty() || (data.is_rows() && data.offsets.size() == channels), "offset");
  for (const double offset : data.offsets)
    reader.refuse_unless(std::isfinite(static_cast<float>(offset)), "offset");
  reader.refuse_unless(data.columns.empty() || (data.is_rows() && data.columns.size() == channels),
                       "columns");
  reader.refuse_unless(means.empty() || means.size() == channels, "mean");
  reader.refuse_unless(deviations.size() == means.size(), "deviation");
  if (!reader.wrong().empty()) return;
  for (std::size_t c = 0; c < means.size(); ++c) {
    const Normalization n{static_cast<float>(means[c]), static_cast<float>(deviations[c])};
    reader.refuse_unless(std::isfinite(n.mean), "mean");
    reader.refuse_unless(n.deviation > 0 && std::isfinite(1 / n.deviation), "deviation");
    data.normalization.push_back(n);
  }
}

Result<Description> parse_description(const std::string& text) {
  const auto json = parse_json(text, JsonLimits{});
  if (!json) return json.error();
  if (!json->is_object()) return Error{"is not a JSON object"};
  DescriptionReader reader(*json);
  Description data;
  const std::string kind = reader.text("kind"), values = reader.text("values");
  data.is_text = kind == "text";
  reader.refuse_unless(data.is_text || kind == "rows" || kind == "images", "kind");
  data.floats = values == "floats";
  data.source = reader.text("source");
  data.label = reader.text("label");
  data.columns = reader.texts("columns");
  data.class_names = reader.texts("class_names");
  data.tokenizer = reader.text("tokenizer");
  data.classes = static_cast<int>(reader.number("classes", data.is_text ? kTokensMax : kClassesMax));
  reader.refuse_unless(data.classes > 0, "classes");
  reader.refuse_unless(
      data.class_names.empty() || data.class_names.size() == static_cast<std::size_t>(data.classes),
      "class_names");
  reader.refuse_unless(
      std::set(data.class_names.begin(), data.class_names.end()).size() == data.class_names.size(),
      "class_names");
  reader.refuse_unless(data.is_text || values == "floats" || values == "bytes", "values");
  data.train_samples = reader.number("train_samples", UINT32_MAX);
  data.test_samples = reader.number("test_samples", UINT32_MAX);
  if (!data.is_text) {
    read_shape(reader, data);
    read_normalization(reader, data);
  }
  if (const std::string fingerprint = reader.text("fingerprint"); !fingerprint.empty()) {
    const auto id = parse_peer_id(fingerprint);
    reader.refuse_unless(id.has_value(), "fingerprint");
    if (id) data.fingerprint = id->value;
  }
  data.decisions = reader.texts("decisions");
  if (!reader.wrong().empty()) return Error{"has a wrong '" + reader.wrong() + "'"};
  return data;
}

}  // namespace

std::string description_json(const Description& data) {
  return to_json(data).dump(-1, ' ', true, Json::error_handler_t::replace);
}

namespace {

std::string at_most(Description description, std::size_t bytes) {
  std::string text = description_json(description);
  if (text.size() <= bytes) return text;
  description.offsets = {};
  description.normalization = {};
  description.columns = {};
  return description_json(description);
}

}  // namespace

std::string short_description_json(const datasets::DataPair& data) {
  return at_most(datasets::description_of(data), kShortDescriptionBytes);
}

Facts data_facts(const datasets::DataPair& data) {
  Facts facts{{"data", data.name}};
  if (data.tokenizer != nullptr) facts[kTokenizerFact] = data.tokenizer->text();
  facts[kDescriptionFact] = at_most(datasets::description_of(data), kDescriptionBytesMax);
  return facts;
}

Result<datasets::Given> given_by(const std::string& path, const Facts& metadata) {
  datasets::Given given;
  if (const auto text = metadata.find(kTokenizerFact); text != metadata.end()) {
    auto parsed = datasets::text::parse_tokenizer(text->second);
    if (!parsed) return Error{path + ": its tokenizer: " + parsed.error().message};
    given.tokenizer = std::move(*parsed);
  }
  if (const auto text = metadata.find(kDescriptionFact); text != metadata.end()) {
    auto parsed = parse_description(text->second);
    if (!parsed) return Error{path + ": its description of the data " + parsed.error().message};
    if (const auto name = metadata.find("data"); name != metadata.end()) parsed->name = name->second;
    given.of_model = std::make_shared<const Description>(std::move(*parsed));
  }
  return given;
}

bool are_other_data(const datasets::Given& given, const datasets::DataPair& data) {
  return given.of_model != nullptr && given.of_model->fingerprint != 0 &&
         given.of_model->fingerprint != datasets::description_of(data).fingerprint;
}

std::string warning_of_description(const std::string& path, const datasets::Given& given,
                                   const datasets::DataPair& data) {
  if (data.any().is_text()) {
    if (given.tokenizer != nullptr || data.tokenizer == nullptr) return "";
    return path + " does not contain the tokenizer of its training data; the one of " + data.name +
           " is used";
  }
  if (given.of_model != nullptr && !given.of_model->normalization.empty()) return "";
  return path + " does not contain the means and deviations of its training data; the ones of " + data.name +
         " are used";
}

}  // namespace starling::training
