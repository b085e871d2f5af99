#include "datasets/readers/token_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "datasets/description.h"
#include "datasets/readers/byte_source.h"
#include "datasets/readers/token_width.h"
#include "datasets/readers/tokenizer_files.h"
#include "datasets/text/bytes.h"
#include "datasets/text/token_header.h"

namespace starling::datasets {
namespace {

constexpr std::uint64_t kTextTokensMax = UINT32_MAX;
constexpr const char* kTrainBin = "train.bin";
constexpr std::array<const char*, 3> kTestBins = {"test.bin", "valid.bin", "val.bin"};

struct TokenFile {
  std::string path;
  std::size_t header_bytes = 0;
  std::size_t token_bytes = 2;
  bool is_guessed = false;  // the width of its numbers
  std::vector<std::uint16_t> tokens;
};

// The tokens after the first `begun` bytes of the file, which it keeps. Memory grows with the content.
Status read_tokens(ByteSource& source, std::span<const std::uint8_t> begun, TokenFile& file) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::uint8_t> bytes(begun.begin(), begun.end());
  for (std::size_t got = kPiece; got == kPiece;) {
    const std::size_t kept = bytes.size();
    bytes.resize(kept + kPiece);
    const auto read = source.read(std::span(bytes).subspan(kept));
    if (!read) return read.error();
    got = *read;
    bytes.resize(kept + got);
    const std::size_t whole = bytes.size() / file.token_bytes;
    const auto all = std::as_bytes(std::span(bytes));
    for (std::size_t i = 0; i < whole; ++i) {
      const std::uint32_t number = file.token_bytes == 2 ? starling::load<std::uint16_t>(&all[2 * i])
                                                         : starling::load<std::uint32_t>(&all[4 * i]);
      if (number > UINT16_MAX)
        return Error{"'" + file.path + "', byte " +
                     std::to_string(file.header_bytes + file.token_bytes * file.tokens.size()) +
                     ": the token " + std::to_string(number) + " is above " + std::to_string(UINT16_MAX) +
                     ", the greatest that is accepted"};
      file.tokens.push_back(static_cast<std::uint16_t>(number));
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(file.token_bytes * whole));
    if (file.tokens.size() > kTextTokensMax)
      return Error{"'" + file.path + "' has more than the " + std::to_string(kTextTokensMax) +
                   " tokens that are accepted"};
  }
  if (!bytes.empty())
    return Error{"'" + file.path + "' has " +
                 std::to_string(file.header_bytes + file.token_bytes * file.tokens.size() + bytes.size()) +
                 " bytes, which is no whole number of tokens of " + std::to_string(file.token_bytes) +
                 " bytes each; it is truncated or has another format"};
  file.tokens.shrink_to_fit();
  return Done{};
}

// Decides how wide the numbers are, before they are read.
Status choose_width(const std::optional<text::TokenHeader>& header, const std::string& width,
                    TokenFile& file) {
  if (header && !width.empty() && width != std::to_string(header->bits))
    return Error{"'" + file.path + "' has numbers of " + std::to_string(header->bits) +
                 " bits by its header, and the option :width= says " + width + "; omit the option"};
  file.token_bytes = header ? static_cast<std::size_t>(header->bits) / 8 : width == "32" ? 4 : 2;
  file.is_guessed = !header && width.empty();
  return Done{};
}

// An Error if the numbers that were read contradict the width.
Status check_width(const TokenFile& file) {
  constexpr const char* kRight = "write such numbers as 16-bit ones, with NumPy's array.astype('<u2')";
  if (file.token_bytes == 4 && is_every_second_zero(file.tokens))
    return Error{"'" + file.path +
                 "' has numbers of 64 bits, because every second one of its 32-bit numbers " + "is 0; " +
                 kRight};
  if (!file.is_guessed) return Done{};
  const std::string doubt = doubt_of_width(file.tokens);
  if (doubt.empty()) return Done{};
  return Error{"'" + file.path + "' does not say how wide its numbers are, and " + doubt +
               "; say it, as in '" + file.path +
               ":width=32' or ':width=16'; if they have 8 or 64 bits or are " + "big-endian, " + kRight};
}

Result<TokenFile> read_file(const std::string& path, const std::string& width) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const auto start = read_up_to(*source, text::kTokenHeaderBytes);
  if (!start) return start.error();
  if (start->empty()) return Error{"'" + path + "' is empty; tokens of two bytes each are needed"};
  const auto header = text::read_token_header(*start);
  if (!header) return Error{"'" + path + "' " + header.error().message};
  TokenFile file{.path = path, .header_bytes = *header ? start->size() : 0, .tokens = {}};
  if (const Status chosen = choose_width(*header, width, file); !chosen) return chosen.error();
  const std::uint64_t tokens = (source->most_bytes() - file.header_bytes) / file.token_bytes;
  if (!source->gzipped() && tokens > kTextTokensMax)
    return Error{"'" + path + "' has " + std::to_string(tokens) + " tokens, more than the " +
                 std::to_string(kTextTokensMax) + " that are accepted"};
  const auto begun = std::span<const std::uint8_t>(*start).subspan(file.header_bytes);
  if (const Status read = read_tokens(*source, begun, file); !read) return read.error();
  if (*header && (*header)->tokens != file.tokens.size())
    return Error{"'" + path + "' has " + std::to_string(file.tokens.size()) +
                 " tokens after its header, which says " + std::to_string((*header)->tokens) +
                 "; it is truncated or has another format"};
  if (const Status right = check_width(file); !right) return right.error();
  return file;
}

struct Vocabulary {
  text::AnyTokenizer tokenizer;  // null: unknown
  int size = kGpt2Vocabulary;
  std::string decision = {};
  std::vector<std::string> files = {};  // that have it
};

// nanoGPT writes the characters of a small vocabulary into meta.pkl. Its size is the whole number after
// "vocab_size" in the pickle, which is not executed.
Result<Vocabulary> read_meta(const std::string& path) {
  constexpr std::uint64_t kMost = 1 << 20;
  constexpr std::string_view kKey = "vocab_size";
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const auto bytes = read_up_to(*source, kMost);
  if (!bytes) return bytes.error();
  const auto key = std::ranges::search(*bytes, kKey);
  std::size_t at = static_cast<std::size_t>(key.begin() - bytes->begin()) + kKey.size();
  const auto next = [&]() -> std::uint8_t { return at < bytes->size() ? (*bytes)[at++] : 0; };
  std::uint8_t code = next();
  if (code == 'q') next(), code = next();  // stored under a number
  if (code == 0x94) code = next();         // the same, in newer pickles
  std::size_t size = 0;
  for (int b = 0; b < (code == 'K' ? 1 : code == 'M' ? 2 : code == 'J' ? 4 : 0); ++b)
    size |= std::size_t{next()} << 8 * b;
  if (size < 2 || size > text::kTokensMax)
    return Error{"'" + path +
                 "' states no vocabulary that can be read; name the tokenizer of the tokens, as in " +
                 "':tokens=tokenizer.txt', or remove the file"};
  return Vocabulary{
      nullptr,
      static_cast<int>(size),
      "the vocabulary has the " + std::to_string(size) + " tokens that meta.pkl states, without their text",
      {path}};
}

// `folder`: where the token files are.
Result<Vocabulary> find_vocabulary(const std::string& folder, const std::string& tokens, const Given& model) {
  const text::AnyTokenizer& given = model.tokenizer;
  if (tokens == "characters")
    return Error{"the tokens in '" + folder +
                 "' are numbers already, so ':tokens=characters' has no effect; name "
                 "the tokenizer that made them, as in ':tokens=tokenizer.txt'"};
  if (tokens.empty() && !has_tokenizer(folder)) {
    if (given != nullptr)
      return Vocabulary{given, static_cast<int>(given->size()),
                        "the tokens are numbers of the model's vocabulary, " + std::string(given->kind()) +
                            ", because no tokenizer is beside them"};
    if (model.of_model != nullptr && model.of_model->is_text)
      return Vocabulary{nullptr, model.of_model->classes};
    if (const auto meta = find_file(folder, "meta.pkl")) return read_meta(*meta);
    return Vocabulary{nullptr, kGpt2Vocabulary,
                      "the vocabulary is GPT-2's, because no tokenizer is beside the tokens"};
  }
  const bool is_built_in = tokens == "bytes";
  const std::string& named = tokens.empty() ? folder : tokens;
  auto tokenizer = is_built_in ? Result<text::AnyTokenizer>(text::make_bytes()) : load_tokenizer(named);
  if (!tokenizer) return tokenizer.error();
  if (given != nullptr && given->fingerprint() != (*tokenizer)->fingerprint())
    return Error{"the tokens in '" + folder +
                 "' are of another tokenizer than the network's; use tokens of that one, or the text itself"};
  const auto size = static_cast<int>((*tokenizer)->size());
  return Vocabulary{std::move(*tokenizer), size, "",
                    is_built_in ? std::vector<std::string>() : tokenizer_files(named)};
}

Result<Dataset> check_tokens(TokenFile& file, const Vocabulary& vocabulary) {
  for (std::size_t i = 0; i < file.tokens.size(); ++i) {
    if (file.tokens[i] < vocabulary.size) continue;
    const std::string whose = vocabulary.size == kGpt2Vocabulary ? ", GPT-2's" : "";
    return Error{"'" + file.path + "', byte " + std::to_string(file.header_bytes + file.token_bytes * i) +
                 ": the token " + std::to_string(file.tokens[i]) + " is outside the vocabulary of " +
                 std::to_string(vocabulary.size) + " tokens" + whose +
                 "; name the tokenizer that made the file, as in ':tokens=tokenizer.txt'"};
  }
  Dataset set;
  set.shape = {0, 1, 1};
  set.classes = vocabulary.size;
  set.tokens = std::move(file.tokens);
  return set;
}

Origin origin_of(const Vocabulary& vocabulary, bool is_guessed) {
  Origin origin{.source = "tokens", .files = vocabulary.files};
  if (is_guessed)
    origin.decisions.emplace_back("the tokens are numbers of 16 bits, by the distribution of their bytes");
  if (!vocabulary.decision.empty()) origin.decisions.push_back(vocabulary.decision);
  return origin;
}

}  // namespace

Result<DataPair> read_token_file(const std::string& path, const PathOptions& options, const Given& given) {
  auto file = read_file(path, options.width);
  if (!file) return file.error();
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  auto vocabulary = find_vocabulary(folder, options.tokens, given);
  if (!vocabulary) return vocabulary.error();
  auto train = check_tokens(*file, *vocabulary);
  if (!train) return train.error();
  Dataset test;
  test.shape = train->shape;
  test.classes = train->classes;
  const auto cut = train->tokens.begin() + static_cast<std::ptrdiff_t>(train->tokens.size() * 9 / 10);
  test.tokens.assign(cut, train->tokens.end());
  train->tokens.erase(cut, train->tokens.end());
  return join_text(data_name(path), path, std::move(*train), std::move(test),
                   std::move(vocabulary->tokenizer), origin_of(*vocabulary, file->is_guessed));
}

Result<DataPair> read_token_folder(const std::string& folder, const PathOptions& options,
                                   const Given& given) {
  std::optional<std::string> test_path;
  for (const char* name : kTestBins)
    if (!test_path) test_path = find_file(folder, name);
  const auto train_path = find_file(folder, kTrainBin);
  if ((!train_path && !given.only_test) || !test_path)
    return Error{"'" + folder + "' has no file " + (train_path ? kTestBins.back() : kTrainBin) +
                 ", plain or .gz; a folder of tokens contains train.bin and val.bin"};
  auto vocabulary = find_vocabulary(folder, options.tokens, given);
  if (!vocabulary) return vocabulary.error();
  std::array<Dataset, 2> parts;
  bool is_guessed = false;
  for (std::size_t i = given.only_test ? 1 : 0; i < parts.size(); ++i) {
    auto file = read_file(i == 0 ? *train_path : *test_path, options.width);
    if (!file) return file.error();
    is_guessed = is_guessed || file->is_guessed;
    auto part = check_tokens(*file, *vocabulary);
    if (!part) return part.error();
    parts[i] = std::move(*part);
  }
  Origin origin = origin_of(*vocabulary, is_guessed);
  if (train_path) origin.files.push_back(*train_path);
  origin.files.push_back(*test_path);
  return join_text(data_name(folder), folder, std::move(parts[0]), std::move(parts[1]),
                   std::move(vocabulary->tokenizer), std::move(origin));
}

bool is_token_path(std::string_view path) { return has_ending(path, {".bin"}); }

bool is_token_folder(const std::string& folder) {
  return has_one_of(folder, std::array{"val.bin", "valid.bin"}) ||
         (has_one_of(folder, std::array{kTrainBin}) && has_tokenizer(folder));
}

}  // namespace starling::datasets
