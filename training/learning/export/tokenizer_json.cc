#include "training/learning/export/tokenizer_json.h"

#include <map>
#include <vector>

#include "base/text.h"
#include "datasets/text/bpe.h"
#include "datasets/text/characters.h"
#include "datasets/text/gpt2_files.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

using datasets::text::Tokenizer;

Json byte_level(bool in_words) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", in_words}};
}

// Without merges, the model has a token for each character.
Json bpe_model(Json vocabulary, Json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Json file_of(Json special, Json before, Json after, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},       {"padding", nullptr},
          {"added_tokens", special},   {"normalizer", nullptr},       {"pre_tokenizer", std::move(before)},
          {"post_processor", nullptr}, {"decoder", std::move(after)}, {"model", std::move(model)}};
}

Json special_token(std::uint16_t token, std::string_view text) {
  return {{"id", token},     {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// In GPT-2's letters.
std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes)
    datasets::text::append_character(datasets::text::gpt2_character(static_cast<unsigned char>(byte)),
                                     letters);
  return letters;
}

// The text of each token in the file.
class Vocabulary {
 public:
  void add(std::uint16_t token, const std::string& text) {
    const auto [at, fresh] = numbers_.emplace(text, token);
    if (!fresh && wrong_.empty())
      wrong_ = "the tokens " + std::to_string(at->second) + " and " + std::to_string(token) +
               " have the same bytes, which the library tokenizers cannot represent";
  }
  const std::string& wrong() const { return wrong_; }
  Json json() const {
    Json::object_t object;  // emplace_back() does not look for the key
    for (const auto& [text, token] : numbers_) object.emplace_back(text, token);
    return object;
  }

 private:
  std::map<std::string, std::uint16_t> numbers_;
  std::string wrong_;
};

// The file of a tokenizer whose tokens are single characters or bytes.
Json of_single(const Tokenizer& tokenizer, bool bytes) {
  Vocabulary vocabulary;
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto token = static_cast<std::uint16_t>(i);
    const std::string_view text = tokenizer.decode_one(token);
    vocabulary.add(token, bytes ? letters_of(text) : std::string(text));
  }
  const Json fuse = {{"type", "Fuse"}};
  return file_of(Json::array(), bytes ? byte_level(false) : Json(), bytes ? byte_level(true) : fuse,
                 bpe_model(vocabulary.json(), Json::array()));
}

Result<Json> of_bpe(const Tokenizer& tokenizer, const datasets::text::BpeRules& rules) {
  Vocabulary vocabulary;
  Json added = Json::array(), merges = Json::array();
  std::vector<bool> special(rules.size);
  for (const auto& [token, bytes, is_special] : rules.others) {
    if (!is_special) continue;
    if (!is_utf8(bytes)) return Error{"the special token " + std::to_string(token) + " is not UTF-8"};
    special[token] = true;
    added.push_back(special_token(token, bytes));
    vocabulary.add(token, bytes);
  }
  for (std::size_t i = 0; i < rules.size; ++i) {
    const auto token = static_cast<std::uint16_t>(i);
    if (!special[i]) vocabulary.add(token, letters_of(tokenizer.decode_one(token)));
  }
  if (!vocabulary.wrong().empty()) return Error{vocabulary.wrong()};
  for (const datasets::text::Merge& merge : rules.merges)
    merges.push_back(letters_of(tokenizer.decode_one(merge.left)) + " " +
                     letters_of(tokenizer.decode_one(merge.right)));
  return file_of(std::move(added), byte_level(rules.in_words), byte_level(true),
                 bpe_model(vocabulary.json(), std::move(merges)));
}

}  // namespace

Result<std::string> tokenizer_json(const Tokenizer& tokenizer) {
  const datasets::text::BpeRules* rules = datasets::text::rules_of(tokenizer);
  if (rules == nullptr) return to_line(of_single(tokenizer, tokenizer.kind() == "bytes"));
  const auto file = of_bpe(tokenizer, *rules);
  if (!file) return file.error();
  return to_line(*file);
}

}  // namespace starling::training
