#include "datasets/catalogue.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/text.h"
#include "datasets/byte_source.h"
#include "datasets/cifar.h"
#include "datasets/csv.h"
#include "datasets/glyphs.h"
#include "datasets/idx.h"
#include "datasets/npy.h"

namespace starling::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::array<CatalogueEntry, 6> kCatalogue = {{
    {"cifar10", "50,000 + 10,000 color images of 32x32, ten kinds of things",
     "the folder 'cifar10' in $STARLING_DATA, with data_batch_1.bin to data_batch_5.bin and test_batch.bin, "
     "plain or .gz"},
    {"cifar100", "50,000 + 10,000 color images of 32x32, a hundred kinds of things",
     "the folder 'cifar100' in $STARLING_DATA, with train.bin and test.bin, plain or .gz"},
    {"fashion-mnist", "60,000 + 10,000 gray images of 28x28, ten kinds of clothes",
     "the folder 'fashion-mnist' in $STARLING_DATA, with the four IDX files, plain or .gz"},
    {"glyphs", "60,000 + 10,000 gray images of 28x28, ten invented glyphs; glyphs:seed=7 draws others",
     "built in: drawn by Starling itself"},
    {"kmnist", "60,000 + 10,000 gray images of 28x28, ten handwritten Japanese characters",
     "the folder 'kmnist' in $STARLING_DATA, with the four IDX files, plain or .gz"},
    {"mnist", "60,000 + 10,000 gray images of 28x28, handwritten digits",
     "the folder 'mnist' in $STARLING_DATA, with the four IDX files, plain or .gz"},
}};

// Functions of folders with the signatures of the table.
template <Result<DataPair> (*Read)(const std::string&)>
Result<DataPair> without_label(const std::string& path, const std::string&) {
  return Read(path);
}
template <bool (*Is)(const std::string&)>
bool folder_with(const std::string& path, bool folder) {
  return folder && Is(path);
}
bool csv_file(const std::string& path, bool folder) { return !folder && is_csv_path(path); }

constexpr std::array<DataFormat, 5> kFormats = {{
    {"a folder with the four IDX files",
     "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
     false, folder_with<is_idx_folder>, without_label<read_idx_folder>},
    {"a folder with CIFAR's binary files",
     "data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin", false,
     folder_with<is_cifar_folder>, without_label<read_cifar_folder>},
    {"a folder with four NumPy arrays",
     "train_images.npy, train_labels.npy, test_images.npy and test_labels.npy, or x_train.npy, y_train.npy, "
     "x_test.npy and y_test.npy",
     false, folder_with<is_npy_folder>, without_label<read_npy_folder>},
    {"a folder with the tables train.csv and test.csv",
     "columns of numbers and one of labels; FOLDER:label=NAME or FOLDER:label=3 selects the column of labels",
     true, folder_with<is_csv_folder>, read_csv_folder},
    {"a table FILE.csv", "as above, with FILE.csv:label=NAME; one record in ten is for testing", true,
     csv_file, read_csv_file},
}};

bool in_catalogue(std::string_view name) {
  return std::ranges::any_of(kCatalogue, [&](const CatalogueEntry& entry) { return name == entry.name; });
}

std::string accepted(std::span<const DataFormat> known) {
  std::vector<std::string> names, forms;
  for (const auto& entry : kCatalogue) names.push_back(std::string("'") + entry.name + "'");
  for (const DataFormat& format : known) forms.emplace_back(format.what);
  return "accepted are " + one_of(names) + ", or the path of " + one_of(forms) +
         ", plain or .gz (`starling data list` lists the file names)";
}

// For a name that leads to no file.
Error not_found(const std::string& name, const std::string& data_root, std::span<const DataFormat> known) {
  if (in_catalogue(name)) {
    return Error{"data '" + name + "' is not on this machine: " +
                 (data_root.empty()
                      ? "STARLING_DATA, the folder of data sets, is not set; `starling data fetch " + name +
                            " --into DIR` downloads it, then set STARLING_DATA=DIR"
                      : "STARLING_DATA, '" + data_root + "', has no such folder; `starling data fetch " +
                            name + "` downloads it")};
  }
  const std::string root = data_root.empty()
                               ? "STARLING_DATA, the folder of data sets, is not set"
                               : "STARLING_DATA is '" + data_root + "', which has no such folder";
  return Error{"data '" + name + "' is neither a catalogue name nor a folder or file (" + root + "); " +
               accepted(known)};
}

// A path and its option, as in "iris.csv:label=species".
struct PathWithLabel {
  std::string path;
  std::optional<std::string> label;
};

// Colons may be part of a path: only ":label=" and text after the ending of a CSV file are an option.
Result<PathWithLabel> split_label(const std::string& name) {
  constexpr std::string_view kOption = ":label=";
  if (const std::size_t at = name.find(kOption); at != std::string::npos) {
    PathWithLabel parts{name.substr(0, at), name.substr(at + kOption.size())};
    if (!parts.label->empty()) return parts;
  } else if (const std::size_t colon = name.rfind(':');
             colon == std::string::npos || !is_csv_path(std::string_view(name).substr(0, colon))) {
    return PathWithLabel{name, std::nullopt};
  }
  return Error{"data '" + name +
               "': the only option of a table is the name or number of its column of labels, as in "
               "'iris.csv:label=species' or 'iris.csv:label=5'"};
}

bool is_glyphs(std::string_view name) { return split_option(name).base == "glyphs"; }

// "glyphs" or "glyphs:seed=7".
Result<std::uint64_t> glyphs_seed(std::string_view name) {
  const auto parts = split_option(name);
  if (name == parts.base) return std::uint64_t{1};
  const auto seed = parts.key == "seed" ? parse_number<std::uint64_t>(parts.value) : std::nullopt;
  if (!seed)
    return Error{"data '" + std::string(name) +
                 "': the only option of glyphs is a seed, a whole number from 0, as in 'glyphs:seed=7'"};
  return *seed;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The path of this data set in $STARLING_DATA, if it exists.
std::optional<std::string> find_in_root(const std::string& data_root, const std::string& name) {
  if (data_root.empty() || name.empty() || name[0] == '.' || name.find('/') != std::string::npos)
    return std::nullopt;
  const fs::path path = fs::path(data_root) / name;
  if (is_folder(path) || (is_csv_path(name) && exists(path))) return path.string();
  return find_file(data_root, name + ".csv");
}

}  // namespace

std::span<const CatalogueEntry> catalogue() { return kCatalogue; }

std::span<const DataFormat> formats() { return kFormats; }

const DataFormat* format_of(const std::string& path, std::span<const DataFormat> known) {
  const bool folder = is_folder(path);
  const auto found =
      std::ranges::find_if(known, [&](const auto& format) { return format.matches(path, folder); });
  return found == known.end() ? nullptr : &*found;
}

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root) {
  return load(name_or_path, data_root, kFormats);
}

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root,
                      std::span<const DataFormat> known) {
  if (is_glyphs(name_or_path)) {
    const auto seed = glyphs_seed(name_or_path);
    if (!seed) return seed.error();
    return make_glyphs(*seed);
  }
  const auto parts = split_label(name_or_path);
  if (!parts) return parts.error();
  const std::string path = find_in_root(data_root, parts->path).value_or(parts->path);
  if (const DataFormat* format = format_of(path, known)) {
    if (parts->label && !format->takes_label)
      return Error{"the data in '" + path +
                   "' has its labels in files; only tables take a column, as in 'iris.csv:label=5'"};
    return format->read(path, parts->label.value_or(""));
  }
  std::error_code ignored;
  if (is_folder(path)) return Error{"the folder '" + path + "' contains no data set; " + accepted(known)};
  if (fs::exists(path, ignored))
    return Error{"the file '" + path + "' is not a data set; " + accepted(known)};
  return not_found(name_or_path, data_root, known);
}

Result<DataPair> load_shared(const std::string& name, const std::string& data_root) {
  const std::string place = "the swarm trains on the data '" + name + "', which ";
  const std::string remedy = "; give the path of your own copy with --data";
  if (name.find('/') != std::string::npos || name.find("..") != std::string::npos)
    return Error{place + "is a path, and a peer reads no path that another peer names" + remedy};
  const auto parts = split_label(name);
  if (!parts) return parts.error();
  if (is_glyphs(name) || find_in_root(data_root, parts->path)) return load(name, data_root);
  if (in_catalogue(name)) return not_found(name, data_root, kFormats);
  return Error{place + "is neither in the catalogue nor in the folder $STARLING_DATA (" +
               (data_root.empty() ? "not set" : "'" + data_root + "'") + ")" + remedy};
}

std::string data_name(const std::string& name_or_path) {
  if (is_glyphs(name_or_path)) {
    const auto seed = glyphs_seed(name_or_path);
    if (seed && *seed == 1) return "glyphs";
    return name_or_path;
  }
  const auto parts = split_label(name_or_path);
  if (!parts) return name_or_path;  // load() will reject it
  const std::string option = parts->label ? ":label=" + *parts->label : "";
  fs::path path = fs::path(parts->path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "mnist/"
  const std::string last = path.filename().string();
  if (last.empty() || last == "." || last == "..") {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(parts->path, error);
    if (!error && whole.has_filename()) return whole.filename().string() + option;
    return name_or_path;
  }
  if (is_csv_path(last)) {
    const std::string stem =
        last.substr(0, last.size() - (last.ends_with('z') || last.ends_with('Z') ? 7 : 4));
    if (!in_catalogue(stem)) return stem + option;
  }
  return last + option;
}

}  // namespace starling::datasets
