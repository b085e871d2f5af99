// Continues a text with a network: tokens of the prompt, then one drawn token after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/text/tokenizer.h"
#include "models/generator.h"

namespace starling::training {

// How far a text has been written. The next token depends on nothing else, so another TextWriter with the
// same parameters can go on.
struct TextState {
  std::vector<std::uint32_t> window;  // the tokens that the network reads, the latest last; never empty
  std::uint64_t drawn = 0;            // tokens so far: the number of the next draw from the seed
};

// The window after `token`. If it would have more than `context` tokens, it keeps the last half of a context.
void extend(TextState& state, std::uint32_t token, int context);

// The state before the first drawn token. An empty prompt is a line end, or token 0 where the vocabulary has
// none. Of a longer prompt the last `context` tokens are read. An Error if the vocabulary lacks a
// character of the prompt.
Result<TextState> begin_text(const datasets::text::Tokenizer& tokenizer, std::string_view prompt,
                             int context);

class TextWriter {
 public:
  // All arguments outlive the writer, and the parameters do not change. `tokenizer`: of as many tokens as the
  // plan has classes. An Error as Generator::make().
  static Result<TextWriter> make(const models::Plan& plan, std::span<const float> parameters,
                                 const datasets::text::Tokenizer& tokenizer, const models::Sampling& sampling,
                                 std::uint64_t seed);

  // Draws the next token and adds it to the state. Returns its bytes, which may be a part of a character,
  // valid as long as the tokenizer. An Error, and no token, if a logit is not finite. REQUIRES: the window
  // has 1 to context tokens, each in the vocabulary.
  Result<std::string_view> write(TextState& state);

 private:
  TextWriter(models::Generator generator, const datasets::text::Tokenizer& tokenizer,
             const models::Sampling& sampling, std::uint64_t seed)
      : generator_(std::move(generator)), tokenizer_(&tokenizer), sampling_(sampling), draws_(seed) {}

  models::Generator generator_;
  std::vector<std::uint32_t> read_;  // the tokens that the generator's cache holds
  const datasets::text::Tokenizer* tokenizer_;
  models::Sampling sampling_;
  Random draws_;
};

}  // namespace starling::training
