#include "training/learning/text_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace starling::training {

void extend(TextState& state, std::uint32_t token, int context) {
  state.window.push_back(token);
  if (state.window.size() <= static_cast<std::size_t>(context)) return;
  const auto kept = std::max(1, context / 2);
  state.window.erase(state.window.begin(), state.window.end() - kept);
}

Result<TextState> begin_text(const datasets::text::Tokenizer& tokenizer, std::string_view prompt,
                             int context) {
  auto tokens = tokenizer.encode(prompt);
  if (!tokens) return Error{"the prompt: " + tokens.error().message};
  if (tokens->empty()) {
    const auto line_end = tokenizer.encode("\n");
    tokens->push_back(line_end && !line_end->empty() ? line_end->front() : std::uint16_t{0});
  }
  TextState state;
  state.window.assign(tokens->begin(), tokens->end());
  if (state.window.size() > static_cast<std::size_t>(context))
    state.window.erase(state.window.begin(), state.window.end() - context);
  return state;
}

Result<TextWriter> TextWriter::make(const models::Plan& plan, std::span<const float> parameters,
                                    const datasets::text::Tokenizer& tokenizer,
                                    const models::Sampling& sampling, std::uint64_t seed) {
  STARLING_CHECK(tokenizer.size() == static_cast<std::size_t>(plan.classes));
  auto generator = models::Generator::make(plan, parameters);
  if (!generator) return generator.error();
  if (plan.spec.input.tokens < 2)
    return Error{"model \"" + plan.spec.name + "\" has a context of 1 token; text needs at least 2"};
  return TextWriter(std::move(*generator), tokenizer, sampling, seed);
}

Result<std::string_view> TextWriter::write(TextState& state) {
  STARLING_CHECK(!state.window.empty() && static_cast<int>(state.window.size()) <= generator_.context());
  // The cache serves as far as it holds the beginning of the window.
  const bool continues =
      read_.size() < state.window.size() && std::equal(read_.begin(), read_.end(), state.window.begin());
  if (!continues) {
    generator_.clear();
    read_.clear();
  }
  std::span<const float> logits;
  for (std::size_t i = read_.size(); i < state.window.size(); ++i) {
    logits = generator_.read(state.window[i]);
    read_.push_back(state.window[i]);
  }
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    return Error{"the model's outputs are not finite numbers, so it can write no text"};
  Random draw = draws_.split(state.drawn++);
  const std::uint32_t token = models::draw_token(logits, sampling_, draw);
  extend(state, token, generator_.context());
  return tokenizer_->decode_one(static_cast<std::uint16_t>(token));
}

}  // namespace starling::training
