// What data mean, in one value: printed by `data info`, kept in the files of models that are trained on the
// data, and compared where a model meets other data. docs/DATA.md lists its fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

struct Description : Origin {
  std::string name;  // of the data
  bool is_text = false;
  bool floats = false;  // else bytes; not of a text
  ImageShape shape;
  int classes = 0;                                  // or the size of the vocabulary
  std::vector<double> offsets;                      // as in Dataset
  std::vector<Normalization> normalization;         // [channels]; empty: unknown, or a text
  std::string tokenizer;                            // its kind; empty: none, or unknown
  std::size_t train_samples = 0, test_samples = 0;  // or tokens
  std::uint64_t fingerprint = 0;                    // of all samples and labels in their order

  bool is_rows() const { return !is_text && shape.plane() == 1; }
};

// The column of the labels in Origin::label, "column 5" or "column 5 (\"species\")".
struct LabelColumn {
  std::size_t number = 0;  // from 1; 0: unknown
  std::string name;        // empty: unknown
};
LabelColumn label_column(const std::string& label);

Description description_of(const DataPair& pair);

// The fingerprint of one set; and of a pair, kept in it, so that description_of() need not read all samples
// again. adopt() forgets it.
std::uint64_t fingerprint_of(const Dataset& set);
void keep_fingerprint(DataPair& pair);

// "images of 1 x 28 x 28 (channels, height, width), 10 classes"; "float images of ..."; "rows of 4 numbers,
// 3 classes"; "a text, 65 tokens".
std::string sample_kind(const Description& data);

// "t.csv: the labels are column 2, ...; ...": what was decided for the user and what else is noted, for a
// log. Empty: nothing.
std::string decisions_text(const DataPair& pair);

// Makes the pair data of this model: with its normalization, its classes in its order and their number. What
// differs becomes a decision; decisions that were made for the model, too, are not repeated. An Error says
// what the model needs and what the data have. `model.normalization` may be empty, which keeps the data's.
Status adopt(const Description& model, DataPair& pair);

}  // namespace starling::datasets
