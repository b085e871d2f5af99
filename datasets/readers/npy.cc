#include "datasets/readers/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "datasets/description.h"
#include "datasets/readers/byte_source.h"
#include "datasets/readers/parts.h"
#include "datasets/readers/row_writer.h"

namespace starling::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in the file");

constexpr std::size_t kHeaderBytesMax = 1 << 16;
constexpr std::uint64_t kSamplesMax = std::uint64_t{1} << 27;
constexpr std::uint64_t kLengthMax = std::uint64_t{1} << 20;  // of the other dimensions
constexpr std::uint64_t kSampleMax = std::uint64_t{1} << 28;  // elements
constexpr std::uint64_t kNpyLabelMax = 255;
constexpr std::size_t kPieceElements = 1 << 17;  // read at once

// Training samples and labels, then test samples and labels.
constexpr std::array kImageFiles = {"train_images.npy", "train_labels.npy", "test_images.npy",
                                    "test_labels.npy"};
constexpr std::array kKerasFiles = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"};

// ---- the header ----

struct Header {
  std::string type;  // "<f4"
  bool columns_first = false;
  std::vector<std::uint64_t> shape;

  std::string shape_text() const {
    std::string text = "[";
    for (std::size_t d = 0; d < shape.size(); ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
    return text + "]";
  }
};

// Parses the dictionary of Python that NumPy writes. An Error continues the sentence "its header".
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  Result<Header> read() {
    Header header;
    std::vector<std::string> keys;
    if (!take('{')) return wrong("{");
    while (!take('}')) {
      const auto key = take_text();
      if (!key) return wrong("a key in quotes");
      if (!take(':')) return wrong(":");
      if (std::ranges::find(keys, *key) != keys.end()) return Error{"has '" + *key + "' twice"};
      keys.push_back(*key);
      if (*key == "descr") {
        if (next('[') || next('(')) return Error{"says that each element is a record of several fields"};
        const auto type = take_text();
        if (!type) return wrong("an element type in quotes");
        header.type = *type;
      } else if (*key == "fortran_order") {
        if (!take_word("True") && !take_word("False")) return wrong("True or False");
        header.columns_first = word_ == "True";
      } else if (*key != "shape") {
        return Error{"has a key other than 'descr', 'fortran_order' and 'shape'"};
      } else if (!take_shape(header.shape)) {
        return wrong("a shape as in (100, 28, 28)");
      }
      if (!take(',') && !next('}')) return wrong(", or }");
    }
    skip();
    if (!rest_.empty()) return wrong("nothing but spaces");
    for (const std::string key : {"descr", "fortran_order", "shape"})
      if (std::ranges::find(keys, key) == keys.end()) return Error{"lacks the key '" + key + "'"};
    return header;
  }

 private:
  Error wrong(const std::string& expected) {
    skip();
    std::string found;
    for (const char c : rest_.substr(0, 12)) found += is_printable(c) ? c : '?';
    while (found.ends_with(' ')) found.pop_back();
    return Error{"has " + (found.empty() ? "its end" : "'" + found + "'") + " where " + expected +
                 " was expected"};
  }
  static bool is_printable(char c) { return c >= ' ' && c <= '~'; }
  void skip() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos)
      rest_.remove_prefix(1);
  }
  bool next(char c) {
    skip();
    return !rest_.empty() && rest_[0] == c;
  }
  bool take(char c) {
    if (!next(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip();
    if (!rest_.starts_with(word)) return false;
    word_ = word;
    rest_.remove_prefix(word.size());
    return true;
  }
  // Quoted text. NumPy's is short, printable and without escapes.
  std::optional<std::string> take_text() {
    skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const std::size_t close = rest_.find(rest_[0], 1);
    if (close > 32) return std::nullopt;  // also if there is none
    const std::string text(rest_.substr(1, close - 1));
    for (const char c : text)
      if (!is_printable(c) || c == '\\') return std::nullopt;
    rest_.remove_prefix(close + 1);
    return text;
  }
  bool take_shape(std::vector<std::uint64_t>& shape) {
    constexpr std::size_t kDimensionsMax = 32;
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      const auto digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto length = parse_number<std::uint64_t>(rest_.substr(0, digits));
      if (!length || shape.size() == kDimensionsMax) return false;
      shape.push_back(*length);
      rest_.remove_prefix(digits);
      if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);      // as Python 2 wrote long integers
      if (!take(',') && (!next(')') || shape.size() == 1)) return false;  // (3) is a number, (3,) a shape
    }
    return true;
  }

  std::string_view rest_;
  std::string_view word_;
};

struct NpyFile {
  std::string file;  // its path in quotes
  ByteSource source;
  Header header;
  std::uint64_t header_bytes = 0;  // before the elements
};

Result<NpyFile> open_npy(const std::string& path) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const std::string file = "'" + path + "'";
  const auto truncated = [&](std::size_t bytes) {
    return Error{file + " is truncated: it ends after " + std::to_string(bytes) +
                 " bytes, inside its header"};
  };
  std::array<std::uint8_t, 12> start{};
  const auto got = source->read(std::span(start).first(8));
  if (!got) return got.error();
  constexpr std::array<std::uint8_t, 6> kMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (*got >= 4 && std::memcmp(start.data(), "PK\3\4", 4) == 0)
    return Error{file +
                 " is a zip archive, as numpy.savez writes them; unpack it into one file for each array"};
  if (!std::equal(kMagic.begin(), kMagic.begin() + std::min<std::size_t>(*got, 6), start.begin()))
    return Error{file + " does not begin with 93 'NUMPY', so numpy.save did not write it"};
  if (*got < 8) return truncated(*got);
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    return Error{file + " is in version " + std::to_string(major) + "." + std::to_string(minor) +
                 " of NumPy's format; 1.0, 2.0 and 3.0 are accepted"};
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const auto more = source->read(std::span(start).subspan(8, length_bytes));
  if (!more) return more.error();
  if (*more < length_bytes) return truncated(8 + *more);
  std::size_t length = 0;
  for (std::size_t b = 0; b < length_bytes; ++b) length |= std::size_t{start[8 + b]} << 8 * b;
  if (length > kHeaderBytesMax)
    return Error{file + " has an absurd header of " + std::to_string(length) + " bytes; at most " +
                 std::to_string(kHeaderBytesMax) + " are accepted"};
  std::string text(length, '\0');
  const auto read = source->read({reinterpret_cast<std::uint8_t*>(text.data()), length});
  if (!read) return read.error();
  if (*read < length) return truncated(8 + length_bytes + *read);
  auto header = Dictionary(text).read();
  if (!header) return Error{file + ": its header " + header.error().message};
  return NpyFile{file, std::move(*source), std::move(*header), 8 + length_bytes + length};
}

// Checks the elements' type and order. `example`: a call that converts an array `x`.
Status check_layout(const NpyFile& npy, const std::vector<std::string>& accepted,
                    const std::string& example) {
  const Header& header = npy.header;
  const std::string how = "; convert it with " + example;
  if (std::ranges::find(accepted, header.type) == accepted.end()) {
    const std::string kind = header.type.starts_with('>')                 ? "big-endian elements"
                             : header.type.find('O') != std::string::npos ? "Python objects"
                                                                          : "elements";
    return Error{npy.file + " has " + kind + " of type '" + header.type + "', but " + one_of(accepted) +
                 " is needed" + how};
  }
  if (header.columns_first)
    return Error{npy.file +
                 " stores its elements in Fortran order, column by column, but row by row is needed" + how};
  return Done{};
}

Error truncated(const NpyFile& npy, std::uint64_t expected, std::uint64_t have, const char* at_most = "") {
  return Error{npy.file + " is truncated: its header promises the shape " + npy.header.shape_text() + " (" +
               std::to_string(expected) + " bytes), but it has only " + at_most + std::to_string(have) +
               " bytes"};
}

// Checks that the file can be as long as its header promises, before any memory is used.
Status check_length(const NpyFile& npy, std::uint64_t item_bytes) {
  const std::uint64_t most = npy.source.most_bytes() - std::min(npy.source.most_bytes(), npy.header_bytes);
  const std::uint64_t expected = npy.header.shape[0] * item_bytes;
  if (most >= expected) return Done{};
  return truncated(npy, expected, most, npy.source.gzipped() ? "at most " : "");
}

Status check_end(NpyFile& npy) {
  std::uint8_t more = 0;
  const auto trailing = npy.source.read({&more, 1});
  if (!trailing) return trailing.error();
  if (*trailing > 0)
    return Error{npy.file + " has trailing bytes after the elements of the shape " + npy.header.shape_text() +
                 " that its header promises"};
  return Done{};
}

// The index of element number `at`, as Python writes it: [3, 0, 27].
std::string index_text(const Header& header, std::uint64_t at) {
  std::vector<std::uint64_t> index;
  for (std::size_t d = header.shape.size(); d-- > 0; at /= header.shape[d])
    index.push_back(at % header.shape[d]);
  std::string text;
  for (std::size_t d = index.size(); d-- > 0;) text += (text.empty() ? "[" : ", ") + std::to_string(index[d]);
  return text + "]";
}

// Calls use(element of type T, its number) until it returns an Error.
template <class T, class Use>
Status for_each_element(NpyFile& npy, std::uint64_t count, Use&& use) {
  std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(count, kPieceElements) * sizeof(T));
  for (std::uint64_t done = 0; done < count;) {
    const std::size_t wanted = std::min<std::uint64_t>(count - done, kPieceElements);
    const auto got = npy.source.read(std::span(bytes).first(wanted * sizeof(T)));
    if (!got) return got.error();
    if (*got < wanted * sizeof(T)) return truncated(npy, count * sizeof(T), done * sizeof(T) + *got);
    for (std::size_t i = 0; i < wanted; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if (const std::optional<Error> error = use(value, done + i)) return *error;
    }
    done += wanted;
  }
  return Done{};
}

// ---- labels ----

template <class T>
Status take_labels(NpyFile& npy, std::vector<std::uint8_t>& labels) {
  return for_each_element<T>(
      npy, npy.header.shape[0], [&](T value, std::uint64_t at) -> std::optional<Error> {
        if (value < 0 || static_cast<std::uint64_t>(value) > kNpyLabelMax)
          return Error{npy.file + ": the label at " + index_text(npy.header, at) + " is " +
                       std::to_string(value) + "; labels run from 0 to at most " +
                       std::to_string(kNpyLabelMax)};
        labels.push_back(static_cast<std::uint8_t>(value));
        return std::nullopt;
      });
}

struct LabelType {
  const char* name;
  std::uint64_t bytes;
  Status (*take)(NpyFile&, std::vector<std::uint8_t>&);
};
constexpr std::array<LabelType, 8> kLabelTypes = {{
    {"|u1", 1, take_labels<std::uint8_t>},
    {"|i1", 1, take_labels<std::int8_t>},
    {"<i2", 2, take_labels<std::int16_t>},
    {"<i4", 4, take_labels<std::int32_t>},
    {"<i8", 8, take_labels<std::int64_t>},
    {"<u2", 2, take_labels<std::uint16_t>},
    {"<u4", 4, take_labels<std::uint32_t>},
    {"<u8", 8, take_labels<std::uint64_t>},
}};

Result<std::vector<std::uint8_t>> read_labels(const std::string& path) {
  auto npy = open_npy(path);
  if (!npy) return npy.error();
  std::vector<std::string> types;
  for (const LabelType& type : kLabelTypes) types.emplace_back(type.name);
  if (const auto fits = check_layout(*npy, types, "np.ascontiguousarray(y, dtype=\"<i8\")"); !fits)
    return fits.error();
  const auto& shape = npy->header.shape;
  const bool one_hot = shape.size() == 2 && shape[1] > 1;
  if (one_hot || shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1))
    return Error{npy->file + " has the shape " + npy->header.shape_text() +
                 ", but labels are one number per sample, as [n]; " +
                 (one_hot ? "if each row is zeros and a one, y.argmax(axis=1) makes these"
                          : "y.reshape(-1) makes these")};
  if (shape[0] == 0 || shape[0] > kSamplesMax)
    return Error{npy->file + " has " + std::to_string(shape[0]) + " labels; 1 to " +
                 std::to_string(kSamplesMax) + " are accepted"};
  const LabelType& type = *std::ranges::find(kLabelTypes, npy->header.type, &LabelType::name);
  if (const auto fits = check_length(*npy, type.bytes); !fits) return fits.error();
  std::vector<std::uint8_t> labels;
  if (const auto taken = type.take(*npy, labels); !taken) return taken.error();
  if (const auto end = check_end(*npy); !end) return end.error();
  return labels;
}

// ---- samples ----

struct Layout {
  ImageShape shape;
  bool channels_last = false;  // as stored in the file
};

// An Error unless samples may have this shape.
Status check_shape(const NpyFile& npy) {
  const Header& header = npy.header;
  const auto& shape = header.shape;
  if (shape.size() < 2 || shape.size() > 4)
    return Error{npy.file + " has the shape " + header.shape_text() +
                 "; [n, features], [n, height, width], [n, channels, height, width] and [n, height, width, "
                 "channels] " +
                 "are accepted"};
  if (shape[0] == 0 || shape[0] > kSamplesMax)
    return Error{npy.file + " has " + std::to_string(shape[0]) + " samples; 1 to " +
                 std::to_string(kSamplesMax) + " are accepted"};
  std::uint64_t sample = 1;  // below 2^48 before it is checked
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (shape[d] == 0 || shape[d] > kLengthMax)
      return Error{npy.file + " has the shape " + header.shape_text() +
                   ", but every length after the first is 1 to " + std::to_string(kLengthMax)};
    sample *= shape[d];
    if (sample > kSampleMax)
      return Error{npy.file + " has the shape " + header.shape_text() + ", but a sample may have at most " +
                   std::to_string(kSampleMax) + " elements"};
  }
  return Done{};
}

// How samples of this shape lie in their files. Appends what was decided. `model`: the samples of the model.
// REQUIRES: check_shape().
Result<Layout> choose_layout(const NpyFile& npy, const std::string& channels, const Description* model,
                             std::vector<std::string>& decisions) {
  const auto& shape = npy.header.shape;
  const auto length = [&](std::size_t d) { return static_cast<int>(shape[d]); };
  if (shape.size() < 4 && !channels.empty())
    return Error{npy.file + " has the shape " + npy.header.shape_text() +
                 ", which has no channels; omit the option :channels="};
  if (shape.size() == 2) {
    if (npy.header.type[1] != 'f')
      decisions.push_back("the samples are rows of " + std::to_string(shape[1]) +
                          " numbers, normalized column by column, neither images nor tokens");
    return Layout{{length(1), 1, 1}};
  }
  if (shape.size() == 3) return Layout{{1, length(1), length(2)}};
  const Layout first{{length(1), length(2), length(3)}}, last{{length(3), length(1), length(2)}, true};
  if (!channels.empty()) return channels == "last" ? last : first;
  if (model != nullptr && (model->shape == first.shape) != (model->shape == last.shape))
    return model->shape == last.shape ? last : first;
  const auto may_be_channels = [](std::uint64_t n) { return n == 1 || n == 3 || n == 4; };
  const bool may_be_last = may_be_channels(shape[3]);
  if (may_be_channels(shape[1]) == may_be_last)
    return Error{npy.file + " has the shape " + npy.header.shape_text() +
                 ", which does not show whether the channels are its second or its last length; say it "
                 "with ':channels=first' or ':channels=last' after the path"};
  decisions.push_back(std::string("the images are [n, ") +
                      (may_be_last ? "height, width, channels]" : "channels, height, width]") +
                      ", by the lengths of their shape");
  return may_be_last ? last : first;
}

// Transposes each sample from [height, width, channels] to [channels, height, width].
template <class T>
void put_channels_first(const ImageShape& shape, std::vector<T>& values) {
  const auto channels = static_cast<std::size_t>(shape.channels),
             size = static_cast<std::size_t>(shape.size());
  const std::size_t plane = size / channels;
  std::vector<T> sample(size);
  for (auto begin = values.begin(); begin != values.end(); begin += static_cast<std::ptrdiff_t>(size)) {
    for (std::size_t p = 0; p < plane; ++p) {
      for (std::size_t c = 0; c < channels; ++c)
        sample[c * plane + p] = begin[static_cast<std::ptrdiff_t>(p * channels + c)];
    }
    std::copy(sample.begin(), sample.end(), begin);
  }
}

template <class T>
Status take_floats(NpyFile& npy, std::uint64_t count, RowWriter& rows, Dataset& set) {
  if (!npy.source.gzipped()) set.features.reserve(count);  // at most the file's length
  const auto size = static_cast<std::size_t>(set.shape.size());
  const bool are_rows = set.shape.plane() == 1;
  std::vector<double> row;
  return for_each_element<T>(npy, count, [&](T element, std::uint64_t at) -> std::optional<Error> {
    const auto value = static_cast<double>(element);
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) [[unlikely]] {
      const std::string text = std::isfinite(value) ? format_number(value)
                               : std::isnan(value)  ? "nan"
                               : value > 0          ? "inf"
                                                    : "-inf";
      return Error{npy.file + ": the element at " + index_text(npy.header, at) + " is " + text +
                   "; only finite numbers that fit into 32-bit floats are accepted"};
    }
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
      // Read back with 80 bits, which hold every number of 64 bits and the double.
      if (static_cast<long double>(element) != static_cast<long double>(value)) rows.tell_inexact(row.size());
    }
    if (!are_rows) {
      set.features.push_back(narrow);
    } else if (row.push_back(value); row.size() == size) {
      rows.add(row, set);
      row.clear();
    }
    return std::nullopt;
  });
}

struct FloatType {
  const char* name;
  std::uint64_t bytes;
  Status (*take)(NpyFile&, std::uint64_t count, RowWriter&, Dataset&);
};
constexpr std::array<FloatType, 10> kFloatTypes = {{
    {"|u1", 1, take_floats<std::uint8_t>},
    {"<f4", 4, take_floats<float>},
    {"<f8", 8, take_floats<double>},
    {"|i1", 1, take_floats<std::int8_t>},
    {"<i2", 2, take_floats<std::int16_t>},
    {"<i4", 4, take_floats<std::int32_t>},
    {"<i8", 8, take_floats<std::int64_t>},
    {"<u2", 2, take_floats<std::uint16_t>},
    {"<u4", 4, take_floats<std::uint32_t>},
    {"<u8", 8, take_floats<std::uint64_t>},
}};

// The types of samples of this shape.
std::vector<std::string> accepted_types(std::size_t dimensions) {
  if (dimensions != 2) return {"|u1", "<f4", "<f8"};
  std::vector<std::string> names;
  for (const FloatType& type : kFloatTypes) names.emplace_back(type.name);
  return names;
}

// Reads the parts of a folder, whose samples lie alike.
class NpyParts {
 public:
  NpyParts(const PathOptions& options, const Given& given)
      : channels_(options.channels), model_(given.of_model), rows_(given) {}

  Result<Dataset> read(const std::string& features_path, const std::string& labels_path) {
    auto labels = read_labels(labels_path);  // the small file first: errors appear sooner
    if (!labels) return labels.error();
    auto npy = open_npy(features_path);
    if (!npy) return npy.error();
    if (const auto fits = check_layout(*npy, accepted_types(npy->header.shape.size()),
                                       "np.ascontiguousarray(x, dtype=\"<f4\")");
        !fits)
      return fits.error();
    if (const Status found = find_layout(*npy); !found) return found.error();
    if (npy->header.shape[0] != labels->size())
      return Error{npy->file + " has " + std::to_string(npy->header.shape[0]) + " samples, but '" +
                   labels_path + "' has " + std::to_string(labels->size()) +
                   " labels; each sample needs one label"};
    Dataset set;
    set.shape = layout_->shape;
    if (const Status taken = take_samples(*npy, set); !taken) return taken.error();
    if (layout_->channels_last) {
      put_channels_first(set.shape, set.images);
      put_channels_first(set.shape, set.features);
    }
    set.classes = *std::max_element(labels->begin(), labels->end()) + 1;
    set.labels = std::move(*labels);
    return set;
  }

  // What was decided.
  void tell(Origin& origin) const {
    origin.decisions.insert(origin.decisions.end(), decisions_.begin(), decisions_.end());
    rows_.tell_merged(origin);
  }

 private:
  // Sets layout_ by the first file; an Error if another one has another shape.
  Status find_layout(const NpyFile& npy) {
    if (const Status possible = check_shape(npy); !possible) return possible.error();
    const Header& header = npy.header;
    if (!layout_) {
      auto layout = choose_layout(npy, channels_, model_.get(), decisions_);
      if (!layout) return layout.error();
      layout_ = *layout;
      first_ = header;
      first_file_ = npy.file;
    }
    if (std::ranges::equal(header.shape.begin() + 1, header.shape.end(), first_.shape.begin() + 1,
                           first_.shape.end()))
      return Done{};
    return Error{npy.file + " has the shape " + header.shape_text() + ", and " + first_file_ + " " +
                 first_.shape_text() + "; all lengths but the first must be equal"};
  }

  Status take_samples(NpyFile& npy, Dataset& set) {
    const auto size = static_cast<std::uint64_t>(set.shape.size());
    const std::uint64_t count = npy.header.shape[0] * size;  // at most 2^27 * 2^28: fits, in bytes, too
    const FloatType& type = *std::ranges::find(kFloatTypes, npy.header.type, &FloatType::name);
    if (const auto fits = check_length(npy, size * type.bytes); !fits) return fits.error();
    if (type.bytes == 1 && npy.header.shape.size() != 2) {
      auto bytes = read_up_to(npy.source, count);
      if (!bytes) return bytes.error();
      if (bytes->size() < count) return truncated(npy, count, bytes->size());
      set.images = std::move(*bytes);
    } else {
      if (const auto taken = type.take(npy, count, rows_, set); !taken) return taken.error();
      if (set.shape.plane() == 1) rows_.finish(set);
      set.features.shrink_to_fit();
    }
    return check_end(npy);
  }

  std::string channels_;  // the value of the option
  std::shared_ptr<const Description> model_;
  RowWriter rows_;
  std::optional<Layout> layout_;
  Header first_;
  std::string first_file_;
  std::vector<std::string> decisions_;
};

}  // namespace

Result<Dataset> read_npy_dataset(const std::string& features_path, const std::string& labels_path,
                                 const PathOptions& options) {
  return NpyParts(options, {}).read(features_path, labels_path);
}

Result<DataPair> read_npy_folder(const std::string& folder, const PathOptions& options, const Given& given) {
  const auto& names = has_one_of(folder, kImageFiles) ? kImageFiles : kKerasFiles;
  NpyParts parts(options, given);
  auto pair = read_parts(folder, names, given, {.source = "NumPy"},
                         [&](std::span<const std::string> paths) { return parts.read(paths[0], paths[1]); });
  if (pair) parts.tell(pair->origin);
  return pair;
}

bool is_npy_folder(const std::string& folder) {
  return has_one_of(folder, kImageFiles) || has_one_of(folder, kKerasFiles);
}

}  // namespace starling::datasets
