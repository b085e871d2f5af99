// A labeled set of samples in memory: images as bytes (60,000 of 28x28 take 47 MB), images and rows of a
// table as floats, or a text as tokens. gather() normalizes one batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::datasets {

namespace text {
class Tokenizer;
using AnyTokenizer = std::shared_ptr<const Tokenizer>;
}  // namespace text

// The shape of one sample. A row of n floats is {n, 1, 1}: each column is a channel with its own mean and
// deviation.
struct ImageShape {
  int channels = 1, height = 0, width = 0;
  int size() const { return channels * height * width; }
  std::size_t plane() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// The normalization of a channel: (pixel / 255 - mean) / deviation for bytes, (value - mean) / deviation for
// floats.
struct Normalization {
  float mean = 0, deviation = 1;  // over the training samples
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

struct Dataset {
  ImageShape shape;
  int classes = 0;
  // [size(), channels, height, width]; one of the two is empty.
  std::vector<std::uint8_t> images;
  std::vector<float> features;               // all finite
  std::vector<double> offsets;               // of rows: what was subtracted from each column; empty: nothing
  std::vector<std::uint8_t> labels;          // [size()], each below `classes`
  std::vector<std::uint32_t> lines;          // of a table's test part: the line of each sample in its file
  std::vector<Normalization> normalization;  // [channels]; empty: mean 0 and deviation 1

  // Of a text, in order; images, features, labels and normalization are then empty. Each is below `classes`,
  // the size of the vocabulary.
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint32_t> documents;  // where each document begins in `tokens`; empty: one document
  std::uint32_t context = 0;             // tokens of a sample of the text; 0: not set yet
  bool to_the_end = false;               // the last sample of the text may have fewer labels

  bool is_text() const { return !tokens.empty(); }
  // The samples of the text become windows of `context` tokens side by side: sample i reads the tokens from
  // i * context on, and its labels are the tokens one later. With `to_its_end`, for judging, the last window
  // may have fewer labels, so that each token but the first is one. REQUIRES: is_text(), context > 0.
  void set_context(std::uint32_t tokens_per_sample, bool to_its_end = false);

  // Of a text: the number of windows, 0 while the context is not set.
  std::size_t size() const {
    if (!is_text()) return labels.size();
    return context == 0 ? 0 : (tokens.size() - 1 + (to_the_end ? context - 1 : 0)) / context;
  }
  std::size_t labels_per_sample() const { return is_text() ? context : 1; }
  // The labels of these samples, which follow one another. REQUIRES: they exist.
  std::size_t labels_of(std::size_t first, std::size_t count) const;
  bool has_floats() const { return !features.empty(); }
  std::size_t memory_bytes() const;  // of the samples and their labels
  double offset_of(std::size_t channel) const { return offsets.empty() ? 0 : offsets[channel]; }

  // Writes the samples as normalized floats [indices.size(), channels, height, width], and their labels. Of a
  // text: token numbers as floats, which are exact, and labels, both [indices.size(), context]; behind the
  // end of the text both are 0.
  // REQUIRES: every index < size(); `images_out` and `labels_out` are long enough.
  void gather(std::span<const std::uint32_t> indices, float* images_out, std::int32_t* labels_out) const;
  // The same for windows of a text that begin shifts[i] tokens later, or less where the text ends before.
  // REQUIRES: is_text(), not to_the_end, shifts.size() == indices.size().
  void gather_shifted(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> shifts,
                      float* images_out, std::int32_t* labels_out) const;
};

// What a reader found beside the samples, and decided for the user.
struct Origin {
  std::string source = {};                    // "CSV", "NumPy <f8"
  std::string label = {};                     // of a table: the column of the labels
  std::vector<std::string> columns = {};      // names of a table's features; empty: it has no header
  std::vector<std::string> class_names = {};  // by the number of the class; empty: labels are numbers
  std::vector<std::string> decisions = {};    // one clause each
  std::vector<std::string> notes = {};        // the same about this machine's files; in no file of a model
  std::vector<std::string> files = {};        // of a folder: of both parts, also of one that is not needed
  bool label_chosen = false;                  // whether the user named the column of the labels
};

// A training and a test set that belong together. Both carry the training set's normalization.
struct DataPair {
  std::string name;  // as data_name() returns it
  Dataset train, test;
  // Of a text; null for token files without one.
  text::AnyTokenizer tokenizer = {};
  Origin origin = {};
  // The training samples of one peer's own, which trains on all of them instead of on a part of `train`;
  // null: it has none.
  std::shared_ptr<Dataset> own = {};
  // Of all samples and labels, if it is known (datasets/description.h).
  std::optional<std::uint64_t> fingerprint = {};

  const Dataset& trained() const { return own == nullptr ? train : *own; }
  // The training set, or the test set if there is no other.
  const Dataset& any() const { return train.labels.empty() && train.tokens.empty() ? test : train; }
  std::string tokenizer_text() const;  // its text form; empty without one
  // Of a text with a tokenizer: the characters of a token, the mean over the test part.
  std::optional<double> characters_per_token() const;
};

struct Description;

// What is known before data are read.
struct Given {
  text::AnyTokenizer tokenizer = {};                 // divides a text instead of the one that is named
  std::shared_ptr<const Description> of_model = {};  // of the model to which the samples are given
  bool only_test = false;  // the training part is not needed. REQUIRES: of_model, or a tokenizer
};

// Normalization. Readers call join() once, at the end, so that training and test samples are both scaled by
// the statistics of the training samples.

// One per channel. Bytes: exact integer sums, rounded once. Floats: sums in double. If all values are equal,
// or there are none, the deviation is 1.
std::vector<Normalization> measure(const Dataset& set);

// Sets both sets' normalization to the training samples'.
void normalize(DataPair& pair);

// The normalized pair with this name; the test set gets the classes of the training set. An Error, which
// names `folder`, if the samples of both differ in kind, or if a test label is greater than every training
// label. Without training samples the test set keeps its own classes.
Result<DataPair> join(std::string name, const std::string& folder, Dataset train, Dataset test,
                      Origin origin = {});

// The pair of both parts of a text. An Error, which names `path`, if a part has less than two tokens; the
// training part may be absent.
Result<DataPair> join_text(std::string name, const std::string& path, Dataset train, Dataset test,
                           text::AnyTokenizer tokenizer, Origin origin = {});

// An Error if either part of a text is too short for one window of `context` tokens. REQUIRES: a text.
Status check_context(const DataPair& pair, std::uint32_t context);

// Loads a catalogue name ("glyphs", "mnist", "cifar10"), a folder with files of the usual names, or a file,
// all plain or gzipped: the four IDX files (idx.h), CIFAR's binary files (cifar.h), four NumPy arrays
// (npy.h), CSV (csv.h), where ":label=NAME" or ":label=NUMBER" after the path selects the column of labels,
// text (text_files.h) or tokens (token_files.h); options after the path (path_options.h) say more. A path
// that exists is what it says. Other names without a slash are searched for in $STARLING_DATA (`data_root`;
// may be empty), also with .csv or .csv.gz appended. A decision names other data of the same name. With
// `given.of_model` the result is as adopt() (description.h) leaves it.
Result<DataPair> load(const std::string& name_or_path, const std::string& data_root, const Given& given = {});

// The same for the name that another peer gives: only what the catalogue or $STARLING_DATA has under this
// name, so that no peer can make this one read its other files. The Error says what else the user can do.
Result<DataPair> load_shared(const std::string& name, const std::string& data_root, const Given& given = {});

// The name of the data set that load() would return, without reading it; peers compare these names. It is the
// path's last part with the options, without the ending of a CSV file unless a catalogue entry has that name,
// and without the .gz of other files. Of ":tokens=PATH" it has the path's last part.
std::string data_name(const std::string& name_or_path);

// A name with an option after a colon, as the catalogue and the partitions use it: "glyphs:seed=7",
// "dirichlet:alpha=0.1". A name has at most one option.
struct NameWithOption {
  std::string_view base;   // "glyphs"
  std::string_view key;    // "seed"; empty without a colon
  std::string_view value;  // "7"
};

// Splits at the first colon, and the rest at its first '='. The result refers to `name`.
NameWithOption split_option(std::string_view name);

}  // namespace starling::datasets
