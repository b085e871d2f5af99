#include "datasets/text/bpe_training.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "datasets/text/bpe.h"
#include "datasets/text/words.h"

namespace starling::datasets::text {
namespace {

constexpr std::size_t kByteTokens = 256;

using PairKey = std::uint32_t;  // the left token in the upper half

PairKey key_of(std::uint16_t left, std::uint16_t right) { return static_cast<PairKey>(left) << 16 | right; }

// A word with its current tokens, which lie at `begin` in a common array.
struct CountedWord {
  std::size_t begin = 0;
  std::uint32_t length = 0;
  std::uint64_t count = 0;  // of its occurrences
};

class PairCounts {
 public:
  void add_word(std::string_view word, std::uint64_t count) {
    const auto index = static_cast<std::uint32_t>(words_.size());
    words_.push_back({tokens_.size(), static_cast<std::uint32_t>(word.size()), count});
    for (const char c : word) tokens_.push_back(static_cast<unsigned char>(c));
    const std::span<const std::uint16_t> tokens = tokens_of(words_.back());
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) add(key_of(tokens[i], tokens[i + 1]), count, index);
  }

  // REQUIRES: called once, after the last word.
  void order() {
    for (const auto& [key, pair] : pairs_) queue_.push({pair.count, key});
  }

  // The most frequent pair that occurs twice at least and that `accept`s; false if there is none.
  template <class Accept>
  bool pop(PairKey& key, const Accept& accept) {
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      const std::uint64_t count = pairs_.at(entry.key).count;
      if (count != entry.count) {  // it has become rarer meanwhile
        if (count > 0) queue_.push({count, entry.key});
        continue;
      }
      if (count < 2) return false;
      if (!accept(entry.key)) continue;
      key = entry.key;
      return true;
    }
    return false;
  }

  void join(PairKey key, std::uint16_t result) {
    fresh_.clear();
    const std::vector<std::uint32_t> affected = std::move(pairs_.at(key).words);
    for (const std::uint32_t index : affected) join_in(index, key, result);
    std::ranges::sort(fresh_);
    const auto repeated = std::ranges::unique(fresh_);
    fresh_.erase(repeated.begin(), repeated.end());
    for (const PairKey pair : fresh_) queue_.push({pairs_.at(pair).count, pair});
  }

 private:
  struct Pair {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words;  // that have it, or had it
  };
  struct Entry {
    std::uint64_t count;
    PairKey key;
    bool operator<(const Entry& other) const {
      return std::tie(count, other.key) < std::tie(other.count, key);
    }
  };

  std::span<std::uint16_t> tokens_of(const CountedWord& word) {
    return std::span(tokens_).subspan(word.begin, word.length);
  }

  void add(PairKey key, std::uint64_t count, std::uint32_t word) {
    Pair& pair = pairs_[key];
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }

  void join_in(std::uint32_t index, PairKey key, std::uint16_t result) {
    CountedWord& word = words_[index];
    const auto tokens = tokens_of(word);
    const auto matches = [&](std::size_t i) {
      return i + 1 < tokens.size() && key_of(tokens[i], tokens[i + 1]) == key;
    };
    std::size_t first = 0;
    while (first < tokens.size() && !matches(first)) ++first;
    if (first == tokens.size()) return;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      pairs_.at(key_of(tokens[i], tokens[i + 1])).count -= word.count;
    std::uint32_t length = 0;
    for (std::size_t i = 0; i < tokens.size(); ++length) {
      const bool joined = matches(i);
      tokens[length] = joined ? result : tokens[i];
      i += joined ? 2 : 1;
    }
    word.length = length;
    for (std::size_t i = 0; i + 1 < length; ++i) {
      const PairKey pair = key_of(tokens[i], tokens[i + 1]);
      if (tokens[i] == result || tokens[i + 1] == result) {
        add(pair, word.count, index);
        fresh_.push_back(pair);
      } else {
        pairs_.at(pair).count += word.count;
      }
    }
  }

  std::vector<std::uint16_t> tokens_;
  std::vector<CountedWord> words_;
  std::unordered_map<PairKey, Pair> pairs_;
  std::priority_queue<Entry> queue_;  // may name a pair several times, and with an earlier count
  std::vector<PairKey> fresh_;        // pairs with the new token
};

void count_words(std::span<const std::string_view> texts, bool in_words, PairCounts& pairs) {
  std::unordered_map<std::string_view, std::uint64_t> counts;
  for (const std::string_view text : texts) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = in_words ? end_of_word(text, begin) : text.size();
      ++counts[text.substr(begin, end - begin)];
      begin = end;
    }
  }
  for (const auto& [word, count] : counts) pairs.add_word(word, count);
  pairs.order();
}

}  // namespace

Result<AnyTokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& training) {
  if (training.size < kByteTokens || training.size > kTokensMax)
    return Error{"a vocabulary of " + std::to_string(training.size) + " tokens is not possible; " +
                 std::to_string(kByteTokens) + " (only bytes) to " + std::to_string(kTokensMax) +
                 " are accepted"};
  if (std::ranges::any_of(texts, [](std::string_view text) { return text.size() > UINT32_MAX; }))
    return Error{"a text has more than the " + std::to_string(UINT32_MAX) + " bytes that are accepted"};
  PairCounts pairs;
  count_words(texts, training.in_words, pairs);
  BpeRules rules;
  rules.in_words = training.in_words;
  std::vector<std::size_t> lengths(kByteTokens, 1);  // bytes of each token
  for (std::size_t byte = 0; byte < kByteTokens; ++byte) rules.bytes[byte] = static_cast<std::uint16_t>(byte);
  const std::size_t wanted = training.size - kByteTokens;
  const auto length_of = [&](PairKey key) { return lengths[key >> 16] + lengths[key & 0xffff]; };
  for (PairKey key = 0; rules.merges.size() < wanted;) {
    if (!pairs.pop(key, [&](PairKey pair) { return length_of(pair) <= kTokenBytesMax; })) break;
    const auto result = static_cast<std::uint16_t>(lengths.size());
    pairs.join(key, result);
    lengths.push_back(length_of(key));
    rules.merges.push_back(
        {static_cast<std::uint16_t>(key >> 16), static_cast<std::uint16_t>(key & 0xffff), result});
    if (training.progress && rules.merges.size() % 64 == 0) training.progress(rules.merges.size(), wanted);
  }
  rules.size = lengths.size();
  return make_bpe(std::move(rules));
}

}  // namespace starling::datasets::text
