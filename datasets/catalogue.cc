#include "datasets/catalogue.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "datasets/cifar.h"
#include "datasets/dataset.h"
#include "datasets/glyphs.h"
#include "datasets/idx.h"
#include "datasets/options.h"

namespace starling::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::array<CatalogueEntry, 4> kCatalogue = {{
    {"cifar10", "50,000 + 10,000 color images of 32x32, ten kinds of things",
     "the folder 'cifar10' in $STARLING_DATA, with data_batch_1.bin to data_batch_5.bin and test_batch.bin, plain or "
     ".gz"},
    {"cifar100", "50,000 + 10,000 color images of 32x32, a hundred kinds of things",
     "the folder 'cifar100' in $STARLING_DATA, with train.bin and test.bin, plain or .gz"},
    {"glyphs", "60,000 + 10,000 gray images of 28x28, ten invented glyphs; glyphs:seed=7 draws others",
     "built in: drawn by Starling itself"},
    {"mnist", "60,000 + 10,000 gray images of 28x28, handwritten digits",
     "the folder 'mnist' in $STARLING_DATA, with the four IDX files, plain or .gz"},
}};

bool in_catalogue(std::string_view name) {
  for (const auto& entry : kCatalogue)
    if (name == entry.name) return true;
  return false;
}

std::string accepted() {
  std::vector<std::string> names;
  for (const auto& entry : kCatalogue) names.push_back(std::string("'") + entry.name + "'");
  return "accepted are " + one_of(names) +
         ", or the path of a folder with the four IDX files (train-images-idx3-ubyte, train-labels-idx1-ubyte, "
         "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte) or with CIFAR's binary files (data_batch_1.bin and so on and "
         "test_batch.bin, or train.bin and test.bin), plain or .gz";
}

bool is_glyphs(std::string_view name) {
  return split_option(name).base == "glyphs";
}

// "glyphs" or "glyphs:seed=7".
Result<std::uint64_t> glyphs_seed(std::string_view name) {
  const auto parts = split_option(name);
  if (name == parts.base) return std::uint64_t{1};
  const auto seed = parts.key == "seed" ? parse_number<std::uint64_t>(parts.value) : std::nullopt;
  if (!seed)
    return Error{"data '" + std::string(name) +
                 "': glyphs takes only a seed, a whole number from 0, as in 'glyphs:seed=7'"};
  return *seed;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  return kCatalogue;
}

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root) {
  if (is_glyphs(name_or_path)) {
    const auto seed = glyphs_seed(name_or_path);
    if (!seed) return seed.error();
    return make_glyphs(*seed);
  }
  const bool plain_name =
      !name_or_path.empty() && name_or_path.find('/') == std::string::npos && name_or_path[0] != '.';
  std::string folder = name_or_path;
  if (plain_name && !data_root.empty() && is_folder(fs::path(data_root) / name_or_path))
    folder = (fs::path(data_root) / name_or_path).string();
  if (is_folder(folder)) {
    if (is_idx_folder(folder)) return read_idx_folder(folder);
    if (is_cifar_folder(folder)) return read_cifar_folder(folder);
    return Error{"the folder '" + folder + "' holds no data set; " + accepted()};
  }
  const std::string root = data_root.empty()
                               ? "STARLING_DATA, which names the folder of data sets, is not set"
                               : "STARLING_DATA is '" + data_root + "', which has no such folder";
  if (in_catalogue(name_or_path))
    return Error{"data '" + name_or_path + "' is looked for as a folder in $STARLING_DATA, but " + root +
                 "; " + accepted()};
  return Error{"data '" + name_or_path + "' is neither a catalogue name nor a folder (" + root + "); " +
               accepted()};
}

std::string data_name(const std::string& name_or_path) {
  if (is_glyphs(name_or_path)) {
    const auto seed = glyphs_seed(name_or_path);
    if (seed && *seed == 1) return "glyphs";
    return name_or_path;
  }
  fs::path path = fs::path(name_or_path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "mnist/"
  const std::string last = path.filename().string();
  if (last.empty() || last == "." || last == "..") {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(name_or_path, error);
    if (!error && whole.has_filename()) return whole.filename().string();
    return name_or_path;
  }
  return last;
}

}  // namespace starling::datasets
