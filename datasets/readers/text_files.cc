#include "datasets/readers/text_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "datasets/readers/byte_source.h"
#include "datasets/readers/tokenizer_files.h"
#include "datasets/text/bytes.h"
#include "datasets/text/characters.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kDocumentsMax = std::size_t{1} << 20;  // files of a folder
constexpr std::size_t kWholeDocuments = 10;                  // from this number on, none is divided
constexpr std::array<const char*, 3> kTestNames = {"test", "valid", "val"};

// Reads one file, and subtracts its length from the bytes that are still accepted.
Result<Document> read_document(const std::string& path, std::uint64_t& budget) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const Error too_long{"'" + path + "' makes the text longer than the " + std::to_string(kTextBytesMax) +
                       " bytes that are accepted"};
  if (!source->gzipped() && source->most_bytes() > budget) return too_long;
  Document document{path, 0, {}};
  std::string& content = document.text;
  for (std::size_t got = kPiece; got == kPiece;) {
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const auto read = source->read({reinterpret_cast<std::uint8_t*>(content.data()) + before, kPiece});
    if (!read) return read.error();
    got = *read;
    content.resize(before + got);
    if (content.size() > budget) return too_long;
  }
  budget -= content.size();
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; content.starts_with(kMark)) {  // a byte-order mark
    content.erase(0, kMark.size());
    document.offset = kMark.size();
  }
  if (content.empty()) return Error{"'" + path + "' is empty; a text is needed"};
  if (content.starts_with("starling tokenizer "))
    return Error{"'" + path +
                 "' is a tokenizer and no text; a text takes it as its option, as in 'book.txt:tokens=" +
                 std::filesystem::path(path).filename().string() + "'"};
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t begin = at;
    if (!next_character(content, at))
      return Error{
          "'" + path + "', byte " + std::to_string(begin) +
          " is not part of UTF-8, the encoding in which texts are read; convert the file, for example "
          "with iconv"};
  }
  return document;
}

Result<std::vector<Document>> read_all(const std::vector<std::string>& paths, std::uint64_t& budget) {
  std::vector<Document> documents;
  for (const std::string& path : paths) {
    auto document = read_document(path, budget);
    if (!document) return document.error();
    documents.push_back(std::move(*document));
  }
  return documents;
}

std::size_t count_characters(std::string_view text) {  // of valid UTF-8
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// The offset of the character with this number. REQUIRES: the text is UTF-8 and has it.
std::size_t offset_of(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < character; ++i) next_character(text, at);
  return at;
}

// The first nine tenths, rounded down, and the rest.
Documents divide_characters(std::vector<Document> all) {
  std::uint64_t total = 0;
  for (const Document& document : all) total += count_characters(document.text);
  std::uint64_t left = total * 9 / 10;  // for training
  Documents parts;
  for (Document& document : all) {
    const std::uint64_t count = count_characters(document.text);
    if (left > 0 && left < count) {
      const std::size_t cut = offset_of(document.text, left);
      parts.test.push_back({document.path, document.offset + cut, document.text.substr(cut)});
      document.text.resize(cut);
      parts.train.push_back(std::move(document));
    } else {
      (left > 0 ? parts.train : parts.test).push_back(std::move(document));
    }
    left -= std::min(left, count);
  }
  return parts;
}

Documents divide(std::vector<Document> all) {
  if (all.size() < kWholeDocuments) return divide_characters(std::move(all));
  Documents parts;
  const std::size_t train = all.size() * 9 / 10;
  for (std::size_t i = 0; i < all.size(); ++i)
    (i < train ? parts.train : parts.test).push_back(std::move(all[i]));
  return parts;
}

// A heading of WikiText's first level: " = Valkyria Chronicles III = ".
bool begins_article(std::string_view line) {
  return line.size() > 6 && line.starts_with(" = ") && line.ends_with(" = ") && !line.starts_with(" = = ");
}

std::vector<Document> articles(const Document& file) {
  std::vector<Document> found;
  std::size_t begin = 0;
  bool any = false;  // there is a heading in the article so far
  const auto cut = [&](std::size_t end) {
    found.push_back({file.path, file.offset + begin, file.text.substr(begin, end - begin)});
    begin = end;
  };
  for (std::size_t at = 0; at < file.text.size();) {
    const std::size_t end = std::min(file.text.size(), file.text.find('\n', at));
    if (begins_article(std::string_view(file.text).substr(at, end - at))) {
      if (std::exchange(any, true)) cut(at);
    }
    at = end + 1;
  }
  cut(file.text.size());
  return found;
}

// The files of the two parts, if the folder has them under the usual names.
struct SplitFiles {
  std::string train, test;
  bool wiki = false;
};

// With `only_test` the training file may be absent; its name is then empty.
std::optional<SplitFiles> find_split(const std::string& folder, bool only_test, const std::string& before,
                                     const std::string& ending) {
  const auto train = find_file(folder, before + "train" + ending);
  if (!train && !only_test) return std::nullopt;
  for (const char* name : kTestNames) {
    if (const auto test = find_file(folder, before + name + ending))
      return SplitFiles{train.value_or(""), *test, !before.empty()};
  }
  return std::nullopt;
}

std::optional<SplitFiles> find_wiki(const std::string& folder, bool only_test = false) {
  const auto tokens = find_split(folder, only_test, "wiki.", ".tokens");
  return tokens ? tokens : find_split(folder, only_test, "wiki.", ".raw");
}

std::optional<SplitFiles> find_split(const std::string& folder, bool only_test) {
  if (const auto wiki = find_wiki(folder, only_test)) return wiki;
  const auto txt = find_split(folder, only_test, "", ".txt");
  return txt ? txt : find_split(folder, only_test, "", ".text");
}

// Sorted by name.
Result<std::vector<std::string>> text_files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string path = at->path().string();
    // A link that leads nowhere is an error when it is read.
    if (is_text_path(path) && at->path().filename().string()[0] != '.' && !at->is_directory(ignored))
      paths.push_back(path);
  }
  if (error) return Error{"the folder '" + folder + "' cannot be read: " + error.message()};
  std::ranges::sort(paths);
  return paths;
}

Result<Documents> read_split(const SplitFiles& files, bool only_test) {
  std::uint64_t budget = kTextBytesMax;
  auto train = read_all(only_test ? std::vector<std::string>() : std::vector{files.train}, budget),
       test = read_all({files.test}, budget);
  if (!train) return train.error();
  if (!test) return test.error();
  Documents parts{std::move(*train), std::move(*test), {files.train, files.test}};
  if (!files.wiki) return parts;
  if (!only_test) parts.train = articles(parts.train.front());
  parts.test = articles(parts.test.front());
  return parts;
}

bool is_built_in(std::string_view tokens) {
  return tokens.empty() || tokens == "characters" || tokens == "bytes";
}

Result<text::AnyTokenizer> choose_tokenizer(const Documents& documents, const std::string& path,
                                            const std::string& tokens, const text::AnyTokenizer& given) {
  if (given != nullptr) return given;
  if (tokens == "bytes") return text::make_bytes();
  if (!is_built_in(tokens)) return load_tokenizer(tokens);
  std::vector<std::string_view> views;
  for (const auto* part : {&documents.train, &documents.test})
    for (const Document& document : *part) views.emplace_back(document.text);
  auto tokenizer = text::make_characters(views);
  if (!tokenizer) return Error{"'" + path + "': " + tokenizer.error().message};
  return tokenizer;
}

// A decision if the model's tokenizer divides the text although the option `tokens` names another one.
std::vector<std::string> override_of(const std::string& tokens, const text::AnyTokenizer& given) {
  if (given == nullptr || tokens.empty()) return {};
  if (is_built_in(tokens)) {
    if (given->kind() == tokens) return {};
  } else if (const auto named = load_tokenizer(tokens);
             named && (*named)->fingerprint() == given->fingerprint()) {
    return {};
  }
  return {"the model's tokenizer, " + std::string(given->kind()) +
          ", divides the text, not tokens=" + tokens};
}

// Encodes the documents one by one, and frees their text.
Result<Dataset> encode(std::vector<Document>& documents, const text::Tokenizer& tokenizer, bool plain) {
  Dataset set;
  set.classes = static_cast<int>(tokenizer.size());
  set.shape = {0, 1, 1};
  for (Document& document : documents) {
    auto tokens = plain ? tokenizer.encode_plain(document.text) : tokenizer.encode(document.text);
    if (!tokens) {
      const std::string from =
          document.offset > 0 ? ", counted from byte " + std::to_string(document.offset) : "";
      return Error{"'" + document.path + "'" + from + ": " + tokens.error().message};
    }
    if (documents.size() > 1) set.documents.push_back(static_cast<std::uint32_t>(set.tokens.size()));
    if (set.tokens.empty()) {
      set.tokens = std::move(*tokens);
    } else {
      set.tokens.insert(set.tokens.end(), tokens->begin(), tokens->end());
    }
    document.text = {};
  }
  set.tokens.shrink_to_fit();
  return set;
}

// A decision if there are special tokens among the tokens.
std::vector<std::string> specials_in(std::initializer_list<const Dataset*> parts,
                                     const text::Tokenizer& tokenizer) {
  std::vector<bool> special(tokenizer.size());
  for (std::size_t i = 0; i < special.size(); ++i)
    special[i] = tokenizer.is_special(static_cast<std::uint16_t>(i));
  std::size_t count = 0;
  std::optional<std::uint16_t> first;
  for (const Dataset* part : parts) {
    for (const std::uint16_t token : part->tokens) {
      if (!special[token]) continue;
      ++count;
      if (!first) first = token;
    }
  }
  if (!first) return {};
  return {"the text has " + std::to_string(count) + " special tokens, the first is '" +
          std::string(tokenizer.decode_one(*first)) + "'; ':special=text' reads them as text"};
}

}  // namespace

Result<Documents> read_documents(const std::string& path, bool only_test) {
  std::error_code ignored;
  std::uint64_t budget = kTextBytesMax;
  std::vector<std::string> paths = {path};
  if (std::filesystem::is_directory(path, ignored)) {
    if (const auto files = find_split(path, only_test)) return read_split(*files, only_test);
    auto found = text_files_in(path);
    if (!found) return found.error();
    paths = std::move(*found);
    if (paths.empty()) return Error{"the folder '" + path + "' has no file that ends in .txt or .text"};
    if (paths.size() > kDocumentsMax)
      return Error{"the folder '" + path + "' has more than the " + std::to_string(kDocumentsMax) +
                   " files that are accepted"};
  }
  auto all = read_all(paths, budget);
  if (!all) return all.error();
  Documents parts = divide(std::move(*all));
  parts.files = std::move(paths);
  return parts;
}

Result<DataPair> read_texts(const std::string& path, const PathOptions& options, const Given& given) {
  const std::string& tokens = options.tokens;
  const bool plain = options.special == "text";
  auto documents = read_documents(path, given.only_test);
  if (!documents) return documents.error();
  auto tokenizer = choose_tokenizer(*documents, path, tokens, given.tokenizer);
  if (!tokenizer) return tokenizer.error();
  auto train =
      given.only_test && documents->train.empty() ? Dataset() : encode(documents->train, **tokenizer, plain);
  if (!train) return train.error();
  auto test = encode(documents->test, **tokenizer, plain);
  if (!test) return test.error();
  std::vector<std::string> files = std::move(documents->files);
  if (!is_built_in(tokens)) std::ranges::move(tokenizer_files(tokens), std::back_inserter(files));
  const auto is_first = [&train](std::uint16_t token) { return token == train->tokens.front(); };
  if (train->tokens.size() > 1 && std::ranges::all_of(train->tokens, is_first) &&
      std::ranges::all_of(test->tokens, is_first))
    return Error{"'" + path + "' has only one token, again and again: there is nothing to learn"};
  std::vector<std::string> decisions = override_of(tokens, given.tokenizer);
  if (options.special.empty())
    std::ranges::move(specials_in({&*train, &*test}, **tokenizer), std::back_inserter(decisions));
  return join_text(data_name(path), path, std::move(*train), std::move(*test), std::move(*tokenizer),
                   {.source = "text", .decisions = std::move(decisions), .files = std::move(files)});
}

bool is_text_path(std::string_view path) {
  return has_ending(path, {".txt", ".text"}) && !is_tokenizer_file(std::string(path));
}

bool is_text_folder(const std::string& folder) {
  if (find_wiki(folder, true)) return true;
  const auto found = text_files_in(folder);
  return !found || !found->empty();  // its reader reports the error
}

}  // namespace starling::datasets
