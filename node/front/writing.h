// POST /api/v1/generate (docs/API.md): a peer continues a text with its model, a few tokens per request. A
// request contains the whole state of the text, so the peer keeps nothing between requests. Both ways, as
// answers.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "models/generator.h"
#include "training/learning/text_writer.h"

namespace starling::node {

struct WritingRequest {
  std::string prompt;                        // without a state: where the text begins
  std::optional<training::TextState> state;  // from the last answer
  models::Sampling sampling;
  std::uint64_t seed = 1;
  std::uint32_t tokens = 1;  // to write: 1 to kTokensMax
  static constexpr std::uint32_t kTokensMax = 256;
};
inline constexpr double kTemperatureMax = 100;
inline constexpr int kTopKMax = 65'536;

std::string to_json(const WritingRequest& request);
// The Error is a sentence about the field that is wrong. `context` and `vocabulary`: of the model.
Result<WritingRequest> parse_writing_request(const std::string& text, int context, int vocabulary);

// What the tokens are as text: UTF-8, with U+FFFD for bytes that are none.
struct Written {
  std::string text;
  training::TextState state;
  std::uint64_t steps = 0;  // of the replica
};

std::string to_json(const Written& written);
Result<Written> parse_written(const std::string& text);

// Writes `request.tokens` tokens, and up to 3 more until the text ends with a whole character. REQUIRES:
// parse_writing_request() accepts the request for this model. All arguments outlive the call. The Error is a
// sentence about the prompt or the network.
Result<Written> continue_text(const models::Plan& plan, std::span<const float> parameters,
                              const datasets::text::Tokenizer& tokenizer, const WritingRequest& request);

}  // namespace starling::node
