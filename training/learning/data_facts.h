// What the file of a model says about the data on which it was trained: the tokenizer and the description
// (datasets/description.h) in its metadata. docs/CHECKPOINTS.md lists the fields.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/description.h"
#include "models/spec_text.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {

// "data", "description", and of a text "tokenizer". Without the normalization if it is too long for a header.
Facts data_facts(const datasets::DataPair& data);
// The description as JSON, on one line of ASCII.
std::string description_json(const datasets::Description& data);
// The same, of at most 16 KiB: if there are too many columns, without names, means and deviations.
std::string short_description_json(const datasets::DataPair& data);

// The tokenizer and the description in the metadata of the file `path`, null if there are none.
Result<datasets::Given> given_by(const std::string& path, const Facts& metadata);

// Whether the data are not the ones of the model: other samples or labels, or another order. False if
// unknown.
bool are_other_data(const datasets::Given& given, const datasets::DataPair& data);

// A sentence if the model's file does not contain the normalization or the tokenizer of its data, so that
// `data` have their own; else empty.
std::string warning_of_description(const std::string& path, const datasets::Given& given,
                                   const datasets::DataPair& data);

}  // namespace starling::training
