#include "datasets/catalogue.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/text.h"
#include "datasets/description.h"
#include "datasets/glyphs.h"
#include "datasets/published.h"
#include "datasets/readers/byte_source.h"
#include "datasets/readers/cifar.h"
#include "datasets/readers/csv.h"
#include "datasets/readers/idx.h"
#include "datasets/readers/npy.h"
#include "datasets/readers/text_files.h"
#include "datasets/readers/token_files.h"
#include "datasets/readers/unread.h"

namespace starling::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::array<CatalogueEntry, 8> kCatalogue = {{
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
    {"shakespeare", "a text of 1,115,394 characters, a part of Shakespeare's plays (\"tiny Shakespeare\")",
     "the folder 'shakespeare' or 'tinyshakespeare' in $STARLING_DATA, with input.txt, plain or .gz"},
    {"wikitext-2", "a text of 2 million words, articles of Wikipedia; use ':tokens=' and a tokenizer",
     "the folder 'wikitext-2' in $STARLING_DATA, with wiki.train.tokens, wiki.valid.tokens and "
     "wiki.test.tokens, or the same with .raw, plain or .gz; not downloaded by Starling"},
}};

// Functions with the signatures of the table.
template <Result<DataPair> (*Read)(const std::string&, const Given&)>
Result<DataPair> without_option(const std::string& path, const PathOptions&, const Given& given) {
  return Read(path, given);
}
template <std::string PathOptions::*Value,
          Result<DataPair> (*Read)(const std::string&, const std::string&, const Given&)>
Result<DataPair> with_option(const std::string& path, const PathOptions& options, const Given& given) {
  return Read(path, options.*Value, given);
}
template <bool (*Is)(const std::string&)>
bool folder_with(const std::string& path, bool folder) {
  return folder && Is(path);
}
template <bool (*Is)(std::string_view)>
bool file_named(const std::string& path, bool folder) {
  return !folder && Is(path);
}

constexpr std::array<DataFormat, 9> kFormats = {{
    {"a folder with the four IDX files",
     "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte", "",
     folder_with<is_idx_folder>, without_option<read_idx_folder>},
    {"a folder with the tokens of a text",
     "train.bin and val.bin, 16-bit numbers as nanoGPT and llm.c write them, or with FOLDER:width=32 32-bit "
     "ones; if the vocabulary is not GPT-2's, with tokenizer.txt or vocab.json and merges.txt",
     "tokens width", folder_with<is_token_folder>, read_token_folder},
    {"a folder with CIFAR's binary files",
     "data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin", "",
     folder_with<is_cifar_folder>, without_option<read_cifar_folder>},
    {"a folder with four NumPy arrays",
     "train_images.npy, train_labels.npy, test_images.npy and test_labels.npy, or x_train.npy, y_train.npy, "
     "x_test.npy and y_test.npy; FOLDER:channels=last or FOLDER:channels=first if the shape of images does "
     "not show it",
     "channels", folder_with<is_npy_folder>, read_npy_folder},
    {"a folder with the tables train.csv and test.csv",
     "columns of numbers and one of labels; FOLDER:label=NAME or FOLDER:label=3 selects the column of labels",
     "label", folder_with<is_csv_folder>, with_option<&PathOptions::label, read_csv_folder>},
    {"a table FILE.csv", "as above, with FILE.csv:label=NAME; one record in ten is for testing", "label",
     file_named<is_csv_path>, with_option<&PathOptions::label, read_csv_file>},
    {"a folder with texts",
     "train.txt and test.txt, or wiki.train.tokens and wiki.test.tokens, or documents *.txt; "
     "FOLDER:tokens=bytes, or :tokens=FILE of `starling tokenizer train`, selects the tokens, else "
     "characters; FOLDER:special=text reads special tokens in it as text",
     "tokens special", folder_with<is_text_folder>, read_texts},
    {"a text FILE.txt", "as above, with FILE.txt:tokens=bytes; the last tenth is for testing",
     "tokens special", file_named<is_text_path>, read_texts},
    {"tokens FILE.bin", "numbers as above; the last tenth is for testing", "tokens width",
     file_named<is_token_path>, read_token_file},
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
  const bool published = find_published(name) != nullptr;
  if (in_catalogue(name) && !published) {
    const auto entry = std::ranges::find(kCatalogue, std::string_view(name), &CatalogueEntry::name);
    return Error{
        "data '" + name + "' is not on this machine: it is " + entry->found +
        (data_root.empty() ? "; STARLING_DATA is not set" : "; STARLING_DATA is '" + data_root + "'")};
  }
  if (published) {
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

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
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

Result<DataPair> draw_glyphs(std::string_view name) {
  const auto seed = glyphs_seed(name);
  if (!seed) return seed.error();
  return make_glyphs(*seed);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The last part of a path, "mnist" of "data/mnist/".
std::string last_part(const std::string& name) {
  fs::path path = fs::path(name).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

// Where $STARLING_DATA has data of this name, the preferred place first.
std::vector<std::string> places_in(const std::string& data_root, const std::string& name) {
  if (data_root.empty() || !is_plain_name(name)) return {};
  std::vector<std::string> names = {name};
  if (is_csv_path(name) || is_text_path(name) || is_token_path(name)) names.push_back(name + ".gz");
  if (name == "shakespeare") names.emplace_back("tinyshakespeare");
  names.insert(names.end(), {name + ".csv", name + ".csv.gz"});
  for (std::string& one : names) one = (fs::path(data_root) / one).string();
  std::erase_if(names, [](const std::string& path) { return !exists(path); });
  return names;
}

bool is_built_in_tokenizer(std::string_view value) { return value == "characters" || value == "bytes"; }

// The path of this tokenizer in $STARLING_DATA, if it exists.
std::optional<std::string> find_tokenizer(const std::string& data_root, const std::string& name) {
  if (data_root.empty() || !is_plain_name(name)) return std::nullopt;
  const std::string path = (fs::path(data_root) / name).string();
  return exists(path) ? std::optional(path) : std::nullopt;
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

std::string data_path(const std::string& name, const std::string& data_root) {
  if (exists(name)) return name;
  if (const auto places = places_in(data_root, name); !places.empty()) return places.front();
  return find_tokenizer(data_root, name).value_or(name);
}

namespace {

// Data that are at this path, whatever else has their name.
Result<DataPair> read_path(const PathWithOptions& parts, const std::string& data_root,
                           const DataFormat& format, const Given& given) {
  if (const Status sound = check_options(parts, format.options); !sound) return sound.error();
  PathOptions options = parts.options;
  if (!options.tokens.empty() && !is_built_in_tokenizer(options.tokens))
    options.tokens = data_path(options.tokens, data_root);
  auto pair = format.read(parts.path, options, given);
  if (!pair || !is_folder(parts.path)) return pair;
  if (std::string unread = unread_in(parts.path, pair->origin.files); !unread.empty())
    pair->origin.notes.push_back(std::move(unread));
  return pair;
}

Error no_data(const std::vector<std::string>& places, std::span<const DataFormat> known) {
  const std::string& path = places.front();
  std::string message = is_folder(path) ? "the folder '" + path + "' contains no data set"
                                        : "the file '" + path + "' is not a data set";
  if (places.size() > 1) message += "; '" + places[1] + "' has the same name, so name it by its path";
  return Error{message + "; " + accepted(known)};
}

// A path that exists is what it says; the catalogue and $STARLING_DATA are for names that are no paths.
Result<DataPair> read_named(const std::string& name, const std::string& data_root,
                            std::span<const DataFormat> known, const Given& given) {
  std::error_code unreadable;
  if (is_glyphs(name) && !exists(name)) return draw_glyphs(name);
  const auto parts = split_path(name);
  if (!parts) return parts.error();
  std::vector<std::string> places = places_in(data_root, parts->path);
  const bool here = fs::exists(parts->path, unreadable);
  if (unreadable) return Error{"'" + parts->path + "' cannot be read: " + unreadable.message()};
  if (here) {
    std::error_code ignored;
    std::erase_if(places,
                  [&](const std::string& place) { return fs::equivalent(place, parts->path, ignored); });
    places.insert(places.begin(), parts->path);
    if (is_glyphs(name)) places.emplace_back("glyphs:seed=1");
  }
  const std::string path = places.empty() ? parts->path : places.front();
  if (is_folder(path)) {
    fs::directory_iterator(path, unreadable);
    if (unreadable) return Error{"the folder '" + path + "' cannot be read: " + unreadable.message()};
  }
  const DataFormat* format = format_of(path, known);
  if (format == nullptr) return places.empty() ? not_found(name, data_root, known) : no_data(places, known);
  auto pair = read_path({path, parts->options}, data_root, *format, given);
  if (!pair) return pair;
  pair->name = data_name(name);
  for (std::size_t i = 1; i < places.size(); ++i)
    pair->origin.notes.push_back("read from '" + path + "', not from '" + places[i] +
                                 "', which has the same name");
  return pair;
}

}  // namespace

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root,
                      std::span<const DataFormat> known, const Given& given) {
  auto pair = read_named(name_or_path, data_root, known, given);
  if (!pair || given.of_model == nullptr) return pair;
  if (const Status fits = adopt(*given.of_model, *pair); !fits) return fits.error();
  return pair;
}

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root, const Given& given) {
  return load(name_or_path, data_root, kFormats, given);
}

Result<DataPair> load_shared(const std::string& name, const std::string& data_root, const Given& given) {
  const std::string place = "the swarm trains on the data '" + name + "', which ";
  const std::string remedy = "; give the path of your own copy with --data";
  if (name.find('/') != std::string::npos || name.find("..") != std::string::npos)
    return Error{place + "is a path, and a peer reads no path that another peer names" + remedy};
  if (is_glyphs(name)) return draw_glyphs(name);
  auto parts = split_path(name);
  if (!parts) return parts.error();
  if (const auto places = places_in(data_root, parts->path); !places.empty()) {
    std::string& tokens = parts->options.tokens;
    if (!tokens.empty() && !is_built_in_tokenizer(tokens)) {
      const auto tokenizer = find_tokenizer(data_root, tokens);
      if (!tokenizer && given.tokenizer == nullptr)
        return Error{place + "is divided by the tokenizer '" + tokens +
                     "', and the folder $STARLING_DATA, '" + data_root + "', has no such file" + remedy};
      tokens = tokenizer.value_or("");  // without it the given one divides the text
    }
    auto pair = load(places.front() + options_text(parts->options), "", given);
    if (pair) pair->name = data_name(name);
    return pair;
  }
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
  auto parts = split_path(name_or_path);
  if (!parts) return name_or_path;  // load() will reject it
  if (std::string& tokens = parts->options.tokens; !tokens.empty()) {
    tokens = last_part(tokens);
    if (tokens == "characters") tokens.clear();
  }
  const std::string option = options_text(parts->options);
  const std::string last = last_part(parts->path);
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
  if ((is_text_path(last) || is_token_path(last)) && last.ends_with(".gz"))
    return last.substr(0, last.size() - 3) + option;
  return last + option;
}

}  // namespace starling::datasets
