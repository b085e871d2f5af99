#include "datasets/description.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "datasets/text/tokenizer.h"

namespace starling::datasets {
namespace {

std::uint64_t hash_set(const Dataset& set, std::uint64_t hash) {
  const auto add = [&hash](const auto& values) { hash = hash64(std::as_bytes(std::span(values)), hash); };
  add(set.images);
  add(set.features);
  add(set.labels);
  add(set.tokens);
  if (!set.offsets.empty()) add(set.offsets);  // features lack them
  return hash;
}

// Without the fingerprint, which takes time.
Description unhashed(const DataPair& pair) {
  Description data;
  static_cast<Origin&>(data) = pair.origin;
  const Dataset& any = pair.any();
  data.name = pair.name;
  data.is_text = any.is_text();
  data.floats = any.has_floats();
  if (!data.is_text) data.shape = any.shape;
  data.classes = any.classes;
  data.offsets = any.offsets;
  data.normalization = any.normalization;
  if (pair.tokenizer != nullptr) data.tokenizer = pair.tokenizer->kind();
  data.train_samples = data.is_text ? pair.train.tokens.size() : pair.train.size();
  data.test_samples = data.is_text ? pair.test.tokens.size() : pair.test.size();
  return data;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > kMost ? " and so on" : "");
}

// Appends to `origin` what the data have in another form than the model's.
Status check_kind(const Description& model, const Description& data, Origin& origin) {
  const auto wrong = [&](const std::string& its, const std::string& theirs) -> Status {
    return Error{"the model is for " + its + ", and '" + data.name + "' has " + theirs};
  };
  if (model.is_text != data.is_text || model.shape != data.shape || model.floats != data.floats)
    return wrong(sample_kind(model), sample_kind(data));
  for (std::size_t i = 0; i < std::min(model.columns.size(), data.columns.size()); ++i) {
    if (model.columns[i] == data.columns[i]) continue;
    return wrong("rows whose feature " + std::to_string(i + 1) + " is '" + model.columns[i] + "'",
                 "'" + data.columns[i] + "' there");
  }
  const std::size_t its = label_column(model.label).number, theirs = label_column(data.label).number;
  if ((!model.columns.empty() && !data.columns.empty()) || its == theirs || its == 0 || theirs == 0)
    return Done{};
  if (!origin.label_chosen)
    return wrong("rows with the labels in " + model.label,
                 "them in " + data.label + "; select the column with :label=" + std::to_string(its));
  origin.decisions.push_back("the labels are " + data.label +
                             " as selected, and the model's data have them in " + model.label +
                             ", so the other columns are taken in their order");
  return Done{};
}

// Numbers the classes of the data as the model does. An Error if it has no such class.
Status renumber(const Description& model, DataPair& pair) {
  Origin& origin = pair.origin;
  if (!model.class_names.empty() && !origin.class_names.empty() && origin.class_names != model.class_names) {
    std::vector<std::uint8_t> numbers;
    for (const std::string& name : origin.class_names) {
      const auto found = std::ranges::find(model.class_names, name);
      if (found == model.class_names.end())
        return Error{"'" + pair.name + "' has the class '" + name + "', and the model's are " +
                     listed(model.class_names)};
      numbers.push_back(static_cast<std::uint8_t>(found - model.class_names.begin()));
    }
    for (Dataset* set : {&pair.train, &pair.test})
      for (std::uint8_t& label : set->labels) label = numbers[label];
  } else if (model.class_names.empty() != origin.class_names.empty()) {
    if (model.class_names.empty()) {
      origin.decisions.push_back("the model's classes have no names; " + listed(origin.class_names) +
                                 " are its classes 0 and following");
    } else {
      origin.decisions.push_back("the labels are numbers of the model's classes " +
                                 listed(model.class_names));
    }
  }
  const int most = pair.any().classes;
  if (most > model.classes && (model.class_names.empty() || origin.class_names.empty()))
    return Error{"the model has " + std::to_string(model.classes) + " classes, and '" + pair.name +
                 "' has labels up to " + std::to_string(most - 1)};
  pair.train.classes = pair.test.classes = model.classes;
  if (!model.class_names.empty()) origin.class_names = model.class_names;
  return Done{};
}

void shift_to(const std::vector<double>& offsets, Dataset& set) {
  if (set.offsets == offsets) return;
  const auto columns = static_cast<std::size_t>(set.shape.size());
  const auto offset = [&](std::size_t c) { return offsets.empty() ? 0 : offsets[c]; };
  for (std::size_t i = 0; i < set.features.size(); ++i)
    set.features[i] = static_cast<float>(static_cast<double>(set.features[i]) + set.offset_of(i % columns) -
                                         offset(i % columns));
  set.offsets = offsets;
}

}  // namespace

LabelColumn label_column(const std::string& label) {
  constexpr std::string_view kBefore = "column ", kName = " (\"", kEnd = "\")";
  if (!label.starts_with(kBefore)) return {};
  const std::string_view rest = std::string_view(label).substr(kBefore.size());
  const std::size_t digits = std::min(rest.size(), rest.find(' '));
  LabelColumn column{parse_number<std::size_t>(rest.substr(0, digits)).value_or(0), ""};
  const std::string_view name = rest.substr(digits);
  if (name.starts_with(kName) && name.ends_with(kEnd))
    column.name = name.substr(kName.size(), name.size() - kName.size() - kEnd.size());
  return column;
}

Description description_of(const DataPair& pair) {
  Description data = unhashed(pair);
  data.fingerprint = pair.fingerprint ? *pair.fingerprint : hash_set(pair.test, hash_set(pair.train, 0));
  return data;
}

std::uint64_t fingerprint_of(const Dataset& set) { return hash_set(set, 0); }

void keep_fingerprint(DataPair& pair) {
  if (!pair.fingerprint) pair.fingerprint = hash_set(pair.test, hash_set(pair.train, 0));
}

std::string sample_kind(const Description& data) {
  const std::string classes = std::to_string(data.classes) + (data.is_text ? " tokens" : " classes");
  if (data.is_text) return "a text, " + classes;
  const auto& [channels, height, width] = data.shape;
  if (data.is_rows() || (height == 1 && channels == 1))
    return "rows of " + std::to_string(data.shape.size()) + (data.floats ? " numbers, " : " bytes, ") +
           classes;
  return std::string(data.floats ? "float " : "") + "images of " + std::to_string(channels) + " x " +
         std::to_string(height) + " x " + std::to_string(width) + " (channels, height, width), " + classes;
}

std::string decisions_text(const DataPair& pair) {
  std::string text;
  for (const auto* clauses : {&pair.origin.decisions, &pair.origin.notes})
    for (const std::string& clause : *clauses) text += (text.empty() ? "" : "; ") + clause;
  return text.empty() ? text : pair.name + ": " + text;
}

Status adopt(const Description& model, DataPair& pair) {
  pair.fingerprint.reset();
  if (Status fits = check_kind(model, unhashed(pair), pair.origin); !fits) return fits;
  std::erase_if(pair.origin.decisions, [&](const std::string& decision) {
    return std::ranges::find(model.decisions, decision) != model.decisions.end();
  });
  if (model.is_text && model.classes != pair.any().classes)
    return Error{"the model has a vocabulary of " + std::to_string(model.classes) + " tokens, and '" +
                 pair.name + "' has one of " + std::to_string(pair.any().classes)};
  if (model.is_text) return Done{};
  if (Status known = renumber(model, pair); !known) return known;
  if (model.normalization.empty()) return Done{};
  for (Dataset* set : {&pair.train, &pair.test}) {
    shift_to(model.offsets, *set);
    set->normalization = model.normalization;
  }
  if (pair.train.size() > 0 && measure(pair.train) != model.normalization)
    pair.origin.decisions.emplace_back("normalized as the model's training data, from which these differ");
  return Done{};
}

}  // namespace starling::datasets
