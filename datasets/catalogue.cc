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

// Functions of folders with the signatures of the table.
template <Result<DataPair> (*Read)(const std::string&, const Given&)>
Result<DataPair> without_option(const std::string& path, const std::string&, const Given& given) {
  return Read(path, given);
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
     "train.bin and val.bin, 16-bit numbers as nanoGPT and llm.c write them; if the vocabulary is not "
     "GPT-2's, "
     "with tokenizer.txt or vocab.json and merges.txt",
     "tokens", folder_with<is_token_folder>, read_token_folder},
    {"a folder with CIFAR's binary files",
     "data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin", "",
     folder_with<is_cifar_folder>, without_option<read_cifar_folder>},
    {"a folder with four NumPy arrays",
     "train_images.npy, train_labels.npy, test_images.npy and test_labels.npy, or x_train.npy, y_train.npy, "
     "x_test.npy and y_test.npy",
     "", folder_with<is_npy_folder>, without_option<read_npy_folder>},
    {"a folder with the tables train.csv and test.csv",
     "columns of numbers and one of labels; FOLDER:label=NAME or FOLDER:label=3 selects the column of labels",
     "label", folder_with<is_csv_folder>, read_csv_folder},
    {"a table FILE.csv", "as above, with FILE.csv:label=NAME; one record in ten is for testing", "label",
     file_named<is_csv_path>, read_csv_file},
    {"a folder with texts",
     "train.txt and test.txt, or wiki.train.tokens and wiki.test.tokens, or documents *.txt; "
     "FOLDER:tokens=bytes, or :tokens=FILE of `starling tokenizer train`, selects the tokens, else "
     "characters",
     "tokens", folder_with<is_text_folder>, read_texts},
    {"a text FILE.txt", "as above, with FILE.txt:tokens=bytes; the last tenth is for testing", "tokens",
     file_named<is_text_path>, read_texts},
    {"tokens FILE.bin", "16-bit numbers as above; the last tenth is for testing", "tokens",
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

// A path and its option, as in "iris.csv:label=species" or "book.txt:tokens=bytes".
struct PathWithOption {
  std::string path;
  std::string key = {}, value = {};  // empty without an option

  // As it follows the path.
  std::string option() const { return key.empty() ? "" : ":" + key + "=" + value; }
};

Error bad_option(const std::string& name, bool table) {
  return Error{
      "data '" + name + "': " +
      (table ? "the only option of a table is the name or number of its column of labels, as in "
               "'iris.csv:label=species' or 'iris.csv:label=5'"
             : "the only option of a text is its tokens: characters, bytes or the path of a tokenizer, "
               "as in 'book.txt:tokens=bytes' or 'book.txt:tokens=tokenizer.txt'")};
}

// Colons may be part of a path: only ":label=", ":tokens=" and text after the ending of a file are an option.
Result<PathWithOption> split_path(const std::string& name) {
  for (const std::string key : {"label", "tokens"}) {
    const std::string option = ":" + key + "=";
    const std::size_t at = name.find(option);
    if (at == std::string::npos) continue;
    if (at + option.size() == name.size()) return bad_option(name, key == "label");
    return PathWithOption{name.substr(0, at), key, name.substr(at + option.size())};
  }
  const auto before = std::string_view(name).substr(0, name.rfind(':'));
  if (before.size() < name.size()) {
    if (is_csv_path(before)) return bad_option(name, true);
    if (is_text_path(before) || is_token_path(before)) return bad_option(name, false);
  }
  return PathWithOption{name};
}

// An Error if data of this format does not take the option.
Status check_option(const PathWithOption& parts, const DataFormat& format, const std::string& path) {
  if (parts.key.empty() || parts.key == format.option) return Done{};
  if (parts.key == "tokens")
    return Error{"the data in '" + path +
                 "' is no text; only texts take tokens, as in 'book.txt:tokens=bytes'"};
  if (std::string_view(format.option) == "tokens")
    return Error{"the data in '" + path +
                 "' is a text and has no labels; texts take tokens, as in "
                 "'book.txt:tokens=bytes'"};
  return Error{"the data in '" + path +
               "' has its labels in files; only tables take a column, as in 'iris.csv:label=5'"};
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

// The last part of a path, "mnist" of "data/mnist/".
std::string last_part(const std::string& name) {
  fs::path path = fs::path(name).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

// The path of this data set in $STARLING_DATA, if it exists.
std::optional<std::string> find_in_root(const std::string& data_root, const std::string& name) {
  if (data_root.empty() || !is_plain_name(name)) return std::nullopt;
  const fs::path path = fs::path(data_root) / name;
  if (is_folder(path)) return path.string();
  if (is_csv_path(name) || is_text_path(name) || is_token_path(name)) {
    if (const auto file = find_file(data_root, name)) return file;
  }
  if (const fs::path other = fs::path(data_root) / "tinyshakespeare";
      name == "shakespeare" && is_folder(other))
    return other.string();
  return find_file(data_root, name + ".csv");
}

bool is_built_in_tokenizer(std::string_view value) { return value == "characters" || value == "bytes"; }

// The path of this tokenizer in $STARLING_DATA, if it exists.
std::optional<std::string> find_tokenizer(const std::string& data_root, const std::string& name) {
  if (data_root.empty() || !is_plain_name(name)) return std::nullopt;
  const fs::path path = fs::path(data_root) / name;
  std::error_code ignored;
  return fs::exists(path, ignored) ? std::optional(path.string()) : std::nullopt;
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
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  if (const auto set = find_in_root(data_root, name)) return *set;
  return find_tokenizer(data_root, name).value_or(name);
}

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root, const Given& given) {
  return load(name_or_path, data_root, kFormats, given);
}

namespace {

// Data that are at the path itself are preferred to others of this name in $STARLING_DATA.
Result<DataPair> read_found(const std::string& name, const PathWithOption& parts, const std::string& path,
                            const std::string& data_root, const DataFormat& format, const Given& given) {
  if (const Status sound = check_option(parts, format, path); !sound) return sound.error();
  const bool file = parts.key == "tokens" && !is_built_in_tokenizer(parts.value);
  auto pair = format.read(path, file ? data_path(parts.value, data_root) : parts.value, given);
  if (!pair) return pair;
  pair->name = data_name(name);
  const auto other = find_in_root(data_root, parts.path);
  std::error_code ignored;
  if (other && path == parts.path && !fs::equivalent(path, *other, ignored))
    pair->origin.decisions.push_back("read from '" + path + "' here; '" + *other + "' is another one");
  return pair;
}

}  // namespace

Result<DataPair> load(const std::string& name_or_path, const std::string& data_root,
                      std::span<const DataFormat> known, const Given& given) {
  const auto adopted = [&given](Result<DataPair> pair) -> Result<DataPair> {
    if (!pair || given.of_model == nullptr) return pair;
    if (const Status fits = adopt(*given.of_model, *pair); !fits) return fits.error();
    return pair;
  };
  if (is_glyphs(name_or_path)) {
    const auto seed = glyphs_seed(name_or_path);
    if (!seed) return seed.error();
    return adopted(make_glyphs(*seed));
  }
  const auto parts = split_path(name_or_path);
  if (!parts) return parts.error();
  std::error_code ignored;
  std::error_code unreadable;
  const bool here = fs::exists(parts->path, unreadable);
  if (unreadable) return Error{"'" + parts->path + "' cannot be read: " + unreadable.message()};
  if (const DataFormat* format = here ? format_of(parts->path, known) : nullptr)
    return adopted(read_found(name_or_path, *parts, parts->path, data_root, *format, given));
  const std::string path = find_in_root(data_root, parts->path).value_or(parts->path);
  if (const DataFormat* format = format_of(path, known))
    return adopted(read_found(name_or_path, *parts, path, data_root, *format, given));
  if (is_folder(path)) return Error{"the folder '" + path + "' contains no data set; " + accepted(known)};
  if (fs::exists(path, ignored))
    return Error{"the file '" + path + "' is not a data set; " + accepted(known)};
  return not_found(name_or_path, data_root, known);
}

Result<DataPair> load_shared(const std::string& name, const std::string& data_root, const Given& given) {
  const std::string place = "the swarm trains on the data '" + name + "', which ";
  const std::string remedy = "; give the path of your own copy with --data";
  if (name.find('/') != std::string::npos || name.find("..") != std::string::npos)
    return Error{place + "is a path, and a peer reads no path that another peer names" + remedy};
  const auto parts = split_path(name);
  if (!parts) return parts.error();
  if (is_glyphs(name)) return load(name, data_root);
  if (const auto path = find_in_root(data_root, parts->path)) {
    if (given.tokenizer == nullptr && parts->key == "tokens" && !is_built_in_tokenizer(parts->value) &&
        !find_tokenizer(data_root, parts->value))
      return Error{place + "is divided by the tokenizer '" + parts->value +
                   "', and the folder $STARLING_DATA, '" + data_root + "', has no such file" + remedy};
    std::string option = parts->option();
    if (const auto tokenizer = find_tokenizer(data_root, parts->value)) {
      option = ":tokens=" + *tokenizer;
    } else if (parts->key == "tokens" && !is_built_in_tokenizer(parts->value)) {
      option.clear();  // the given one divides the text
    }
    auto pair = load(*path + option, "", given);
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
  const auto parts = split_path(name_or_path);
  if (!parts) return name_or_path;  // load() will reject it
  std::string option = parts->option();
  if (parts->key == "tokens") {
    const std::string tokenizer = last_part(parts->value);
    option = tokenizer == "characters" ? "" : ":tokens=" + tokenizer;
  }
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
