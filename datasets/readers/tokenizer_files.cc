#include "datasets/readers/tokenizer_files.h"

#include <array>
#include <filesystem>

#include "datasets/readers/byte_source.h"
#include "datasets/text/gpt2_files.h"
#include "datasets/text/parse.h"

namespace starling::datasets {
namespace {

constexpr const char* kOwnFile = "tokenizer.txt";
constexpr std::array kGpt2Files = {"vocab.json", "merges.txt"};
constexpr std::array kAddedFiles = {"added_tokens.json", "tokenizer.json"};
constexpr std::uint64_t kAddedBytesMax = std::uint64_t{1} << 24;

Result<std::string> read_bounded(const std::string& path, std::uint64_t most = text::kTokenizerBytesMax) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const auto bytes = read_up_to(*source, most + 1);
  if (!bytes) return bytes.error();
  if (bytes->size() > most)
    return Error{"'" + path + "' has more than the " + std::to_string(most) +
                 " bytes that are accepted of a tokenizer"};
  return std::string(bytes->begin(), bytes->end());
}

}  // namespace

std::vector<std::string> tokenizer_files(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return {path};
  if (auto own = find_file(path, kOwnFile)) return {std::move(*own)};
  auto files = find_files(path, kGpt2Files);
  if (!files) return {};
  for (const char* name : kAddedFiles)
    if (auto added = find_file(path, name)) files->push_back(std::move(*added));
  return std::move(*files);
}

Result<text::AnyTokenizer> load_tokenizer(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const auto own = folder ? find_file(path, kOwnFile) : path;
  if (own) {
    const auto content = read_bounded(*own);
    if (!content) return content.error();
    auto tokenizer = text::parse_tokenizer(*content);
    if (!tokenizer) return Error{"'" + *own + "': " + tokenizer.error().message};
    return tokenizer;
  }
  if (!has_one_of(path, kGpt2Files))
    return Error{"the folder '" + path + "' contains no tokenizer: neither " + kOwnFile + " nor " +
                 kGpt2Files[0] + " and " + kGpt2Files[1]};
  const auto files = find_files(path, kGpt2Files);
  if (!files) return files.error();
  const auto vocabulary = read_bounded((*files)[0]);
  if (!vocabulary) return vocabulary.error();
  const auto merges = read_bounded((*files)[1]);
  if (!merges) return merges.error();
  std::array<std::string, kAddedFiles.size()> added;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto file = find_file(path, kAddedFiles[i]);
    if (!file) continue;
    auto content = read_bounded(*file, kAddedBytesMax);
    if (!content) return content.error();
    added[i] = std::move(*content);
  }
  auto tokenizer = text::parse_gpt2({*vocabulary, *merges, added[0], added[1]});
  if (!tokenizer) return Error{"in '" + path + "' " + tokenizer.error().message};
  return tokenizer;
}

bool has_tokenizer(const std::string& folder) {
  return has_one_of(folder, std::array{kOwnFile, kGpt2Files[0]});
}

bool is_tokenizer_file(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name == kOwnFile || name == kGpt2Files[1];
}

}  // namespace starling::datasets
