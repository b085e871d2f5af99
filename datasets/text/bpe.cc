#include "datasets/text/bpe.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "datasets/text/words.h"

namespace starling::datasets::text {
namespace {

constexpr std::size_t kFirstResult = 256;  // of a merge that does not name its result

bool is_between_bars(std::string_view bytes) {
  return bytes.size() > 4 && bytes.starts_with("<|") && bytes.ends_with("|>");
}

std::uint32_t pair_of(std::uint16_t left, std::uint16_t right) {
  return static_cast<std::uint32_t>(left) << 16 | right;
}

// The bytes of all tokens.
class TokenBytes {
 public:
  explicit TokenBytes(std::size_t tokens) : places_(tokens) {}

  std::string_view of(std::uint16_t token) const {
    const Place place = places_[token];
    return std::string_view(bytes_).substr(place.begin, place.length);
  }
  bool has(std::uint16_t token) const { return places_[token].length > 0; }
  void set(std::uint16_t token, std::string_view bytes) {
    places_[token] = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(bytes.size())};
    bytes_ += bytes;
  }

 private:
  struct Place {
    std::uint32_t begin = 0, length = 0;
  };
  std::string bytes_;
  std::vector<Place> places_;
};

// Joins the pairs of one word at a time. Its memory is kept from word to word.
class Joiner {
 public:
  struct Rule {
    std::uint32_t rank;  // its place in the order of the merges
    std::uint16_t result;
  };
  using Rules = std::unordered_map<std::uint32_t, Rule>;

  Joiner(const BpeRules& rules, const Rules& by_pair) : bytes_(rules.bytes), by_pair_(by_pair) {}

  // Appends the word's tokens.
  void join(std::string_view word, std::vector<std::uint16_t>& tokens) {
    start(word);
    while (!heap_.empty()) {
      // All occurrences of one pair, from left to right, before any pair that they create.
      const std::uint32_t rank = heap_.front().rank;
      same_.clear();
      while (!heap_.empty() && heap_.front().rank == rank) {
        std::ranges::pop_heap(heap_, std::greater());
        same_.push_back(heap_.back());
        heap_.pop_back();
      }
      for (const Candidate& candidate : same_) join(candidate);
    }
    for (std::uint32_t i = 0; i < nodes_.size(); i = nodes_[i].next) tokens.push_back(nodes_[i].token);
  }

 private:
  struct Node {
    std::uint32_t previous, next;  // next == 0: it became part of the node before it
    std::uint16_t token;
  };
  struct Candidate {
    std::uint32_t rank, at;
    std::uint16_t left, right, result;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };

  void start(std::string_view word) {
    nodes_.clear();
    heap_.clear();
    for (std::uint32_t i = 0; i < word.size(); ++i)
      nodes_.push_back({i - 1, i + 1, bytes_[static_cast<unsigned char>(word[i])]});
    for (std::uint32_t i = 0; i + 1 < nodes_.size(); ++i) add(i, false);
    std::ranges::make_heap(heap_, std::greater());
  }

  // The node and the one after it become a candidate if a merge joins them. REQUIRES: there is one after it.
  void add(std::uint32_t at, bool ordered = true) {
    const std::uint16_t left = nodes_[at].token, right = nodes_[nodes_[at].next].token;
    const auto rule = by_pair_.find(pair_of(left, right));
    if (rule == by_pair_.end()) return;
    heap_.push_back({rule->second.rank, at, left, right, rule->second.result});
    if (ordered) std::ranges::push_heap(heap_, std::greater());
  }

  void join(const Candidate& candidate) {
    Node& node = nodes_[candidate.at];
    const std::uint32_t removed = node.next;
    // Other joins may have changed either token.
    if (removed == 0 || removed >= nodes_.size() || node.token != candidate.left ||
        nodes_[removed].token != candidate.right)
      return;
    node.token = candidate.result;
    node.next = std::exchange(nodes_[removed].next, 0);
    if (candidate.at > 0) add(node.previous);
    if (node.next < nodes_.size()) {
      nodes_[node.next].previous = candidate.at;
      add(candidate.at);
    }
  }

  const std::array<std::uint16_t, 256>& bytes_;
  const Rules& by_pair_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_, same_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeRules rules, TokenBytes bytes, Joiner::Rules by_pair)
      : rules_(std::move(rules)), bytes_(std::move(bytes)), by_pair_(std::move(by_pair)) {
    for (const OtherToken& other : rules_.others) {
      if (!other.is_special) continue;
      specials_.push_back(&other);
      special_begins_ += other.bytes.front();
    }
  }

  std::string_view kind() const override { return "bpe"; }
  std::size_t size() const override { return rules_.size; }
  std::string_view decode_one(std::uint16_t token) const override {
    STARLING_CHECK(token < size());
    return bytes_.of(token);
  }
  Result<std::vector<std::uint16_t>> encode(std::string_view text) const override {
    return encode(text, true);
  }
  Result<std::vector<std::uint16_t>> encode_plain(std::string_view text) const override {
    return encode(text, false);
  }
  bool is_special(std::uint16_t token) const override {
    return std::ranges::find(specials_, token, &OtherToken::token) != specials_.end();
  }
  std::string text() const override;
  const BpeRules& rules() const { return rules_; }

 private:
  struct Place {
    std::size_t begin = 0, count = 0;
  };
  using Known = std::unordered_map<std::string_view, Place>;  // where in the tokens a word occurred first

  Result<std::vector<std::uint16_t>> encode(std::string_view text, bool with_specials) const;
  std::pair<std::size_t, const OtherToken*> next_special(std::string_view text) const;
  void encode_words(std::string_view text, Joiner& joiner, Known& known,
                    std::vector<std::uint16_t>& tokens) const;

  BpeRules rules_;
  TokenBytes bytes_;
  Joiner::Rules by_pair_;
  std::vector<const OtherToken*> specials_;  // of rules_.others
  std::string special_begins_;               // their first bytes
};

// Where the next special token begins, the longest of several, and which it is; the text's end and null
// without one.
std::pair<std::size_t, const OtherToken*> BpeTokenizer::next_special(std::string_view text) const {
  const OtherToken* found = nullptr;
  for (std::size_t at = 0; (at = text.find_first_of(special_begins_, at)) != std::string_view::npos; ++at) {
    for (const OtherToken* other : specials_) {
      if (!text.substr(at).starts_with(other->bytes)) continue;
      if (found == nullptr || other->bytes.size() > found->bytes.size()) found = other;
    }
    if (found != nullptr) return {at, found};
  }
  return {text.size(), nullptr};
}

Result<std::vector<std::uint16_t>> BpeTokenizer::encode(std::string_view text, bool with_specials) const {
  if (text.size() > UINT32_MAX)
    return Error{"the text has more than the " + std::to_string(UINT32_MAX) + " bytes that are accepted"};
  std::vector<std::uint16_t> tokens;
  Joiner joiner(rules_, by_pair_);
  Known known;
  for (;;) {
    const auto [at, special] =
        with_specials ? next_special(text) : std::pair<std::size_t, const OtherToken*>(text.size(), nullptr);
    if (rules_.in_words) {
      encode_words(text.substr(0, at), joiner, known, tokens);
    } else if (at > 0) {
      joiner.join(text.substr(0, at), tokens);
    }
    if (special == nullptr) return tokens;
    tokens.push_back(special->token);
    text.remove_prefix(at + special->bytes.size());
  }
}

void BpeTokenizer::encode_words(std::string_view text, Joiner& joiner, Known& known,
                                std::vector<std::uint16_t>& tokens) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_word(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    const auto [at, fresh] = known.try_emplace(word);
    Place& place = at->second;
    if (fresh) {
      place.begin = tokens.size();
      joiner.join(word, tokens);
      place.count = tokens.size() - place.begin;
    } else {
      for (std::size_t i = 0; i < place.count; ++i) tokens.push_back(tokens[place.begin + i]);
    }
  }
}

std::string BpeTokenizer::text() const {
  std::string text = "starling tokenizer 1\nbpe " + std::to_string(rules_.size) +
                     (rules_.in_words ? " words" : " anywhere") + "\nbytes";
  for (const std::uint16_t token : rules_.bytes) text += " " + std::to_string(token);
  text += '\n';
  std::size_t expected = kFirstResult;
  for (const Merge& merge : rules_.merges) {
    text += std::to_string(merge.left) + " " + std::to_string(merge.right);
    if (merge.result != expected) text += " " + std::to_string(merge.result);
    expected = merge.result + std::size_t{1};
    text += '\n';
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const OtherToken& other : rules_.others) {
    text += other.is_special && !is_between_bars(other.bytes) ? "special " : "other ";
    text += std::to_string(other.token) + " ";
    for (const char c : other.bytes) {
      text += kDigits[static_cast<unsigned char>(c) >> 4];
      text += kDigits[static_cast<unsigned char>(c) & 15];
    }
    text += '\n';
  }
  return text + "end\n";
}

Error no_such_token(const std::string& where, std::size_t token, std::size_t size) {
  return Error{where + " names the token " + std::to_string(token) + ", but the vocabulary ends at " +
               std::to_string(size - 1)};
}

// The bytes of the result of a merge, if it may follow the merges before it.
Status add_merge(const Merge& merge, std::size_t number, std::size_t size, TokenBytes& bytes) {
  const std::string where = "merge " + std::to_string(number);
  for (const std::uint16_t token : {merge.left, merge.right, merge.result})
    if (token >= size) return no_such_token(where, token, size);
  for (const std::uint16_t token : {merge.left, merge.right}) {
    if (!bytes.has(token))
      return Error{where + " joins the token " + std::to_string(token) +
                   ", which is neither a byte nor the result of an earlier merge"};
  }
  const std::string joined = std::string(bytes.of(merge.left)) + std::string(bytes.of(merge.right));
  if (joined.size() > kTokenBytesMax)
    return Error{where + " makes a token of " + std::to_string(joined.size()) + " bytes, and at most " +
                 std::to_string(kTokenBytesMax) + " are accepted"};
  if (!bytes.has(merge.result)) {
    bytes.set(merge.result, joined);
  } else if (bytes.of(merge.result) != joined) {
    return Error{where + " gives the token " + std::to_string(merge.result) +
                 " other bytes than an earlier line"};
  }
  return Done{};
}

Status add_others(const BpeRules& rules, TokenBytes& bytes) {
  for (const auto& [token, its_bytes, is_special] : rules.others) {
    const std::string where = "the line of the other token " + std::to_string(token);
    if (token >= rules.size) return no_such_token(where, token, rules.size);
    if (bytes.has(token))
      return Error{where + " is the second one with this token: it is a byte, the result of a merge, or " +
                   "another line's"};
    if (its_bytes.empty() || its_bytes.size() > kTokenBytesMax)
      return Error{where + " has " + std::to_string(its_bytes.size()) + " bytes; 1 to " +
                   std::to_string(kTokenBytesMax) + " are accepted"};
    bytes.set(token, its_bytes);
  }
  for (std::size_t token = 0; token < rules.size; ++token) {
    if (!bytes.has(static_cast<std::uint16_t>(token)))
      return Error{"the token " + std::to_string(token) +
                   " is neither a byte nor the result of a merge nor listed as another token"};
  }
  return Done{};
}

}  // namespace

const BpeRules* rules_of(const Tokenizer& tokenizer) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  return bpe == nullptr ? nullptr : &bpe->rules();
}

Result<AnyTokenizer> make_bpe(BpeRules rules) {
  if (rules.size < rules.bytes.size() || rules.size > kTokensMax)
    return Error{"the vocabulary has " + std::to_string(rules.size) + " tokens; " +
                 std::to_string(rules.bytes.size()) + " to " + std::to_string(kTokensMax) + " are accepted"};
  if (rules.merges.size() > kTokensMax)
    return Error{"there are " + std::to_string(rules.merges.size()) + " merges, and at most " +
                 std::to_string(kTokensMax) + " are accepted"};
  TokenBytes bytes(rules.size);
  for (std::size_t byte = 0; byte < rules.bytes.size(); ++byte) {
    const std::uint16_t token = rules.bytes[byte];
    const std::string where = "the line of the bytes";
    if (token >= rules.size) return no_such_token(where, token, rules.size);
    if (bytes.has(token))
      return Error{where + " names the token " + std::to_string(token) + " twice; every byte has its own"};
    const char c = static_cast<char>(byte);
    bytes.set(token, {&c, 1});
  }
  Joiner::Rules by_pair;
  by_pair.reserve(rules.merges.size());
  for (std::size_t i = 0; i < rules.merges.size(); ++i) {
    const Merge& merge = rules.merges[i];
    if (const Status added = add_merge(merge, i + 1, rules.size, bytes); !added) return added.error();
    const bool fresh = by_pair
                           .try_emplace(pair_of(merge.left, merge.right),
                                        Joiner::Rule{static_cast<std::uint32_t>(i), merge.result})
                           .second;
    if (!fresh)
      return Error{"merge " + std::to_string(i + 1) + " joins the tokens " + std::to_string(merge.left) +
                   " and " + std::to_string(merge.right) + ", as an earlier one does"};
  }
  if (const Status added = add_others(rules, bytes); !added) return added.error();
  for (OtherToken& other : rules.others) other.is_special = other.is_special || is_between_bars(other.bytes);
  return AnyTokenizer(
      std::make_shared<const BpeTokenizer>(std::move(rules), std::move(bytes), std::move(by_pair)));
}

}  // namespace starling::datasets::text
