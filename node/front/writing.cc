#include "node/front/writing.h"

#include <cmath>

#include <fmt/format.h>

#include "training/runs/records/foreign_text.h"
#include "training/runs/records/json.h"

namespace starling::node {
namespace {

using training::Json;

constexpr std::uint64_t kDrawnMax = std::uint64_t{1} << 53;
constexpr std::uint32_t kMoreForCharacter = 3;

// Reads the number `key` between `least` and `most` into `value`, which stays if the key is missing.
template <class T>
Status read(const Json& object, const char* key, T least, T most, T& value) {
  const auto found = object.find(key);
  if (found == object.end()) return Done{};
  const auto wrong = [&] {
    return Error{fmt::format("\"{}\" must be a {} from {} to {}", key,
                             std::is_integral_v<T> ? "whole number" : "number", least, most)};
  };
  if (std::is_integral_v<T> ? !found->is_number_integer() : !found->is_number()) return wrong();
  const auto number = found->template get<double>();
  if (!(number >= static_cast<double>(least) && number <= static_cast<double>(most))) return wrong();
  value = found->template get<T>();
  return Done{};
}

Result<std::vector<std::uint32_t>> read_window(const Json& window, int most, int vocabulary) {
  if (!window.is_array() || window.empty() || window.size() > static_cast<std::size_t>(most))
    return Error{fmt::format("\"window\" must be a list of 1 to {} tokens", most)};
  std::vector<std::uint32_t> tokens;
  for (const Json& token : window) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocabulary))
      return Error{
          fmt::format("\"window\": token {} is not a whole number below {}", tokens.size() + 1, vocabulary)};
    tokens.push_back(token.get<std::uint32_t>());
  }
  return tokens;
}

}  // namespace

std::string to_json(const WritingRequest& request) {
  Json object;
  if (request.state) {
    object = {{"window", request.state->window}, {"drawn", request.state->drawn}};
  } else {
    object = {{"prompt", request.prompt}};
  }
  object["temperature"] = request.sampling.temperature;
  object["top_k"] = request.sampling.top_k;
  object["top_p"] = request.sampling.top_p;
  object["seed"] = request.seed;
  object["tokens"] = request.tokens;
  return training::to_line(object);
}

Result<WritingRequest> parse_writing_request(const std::string& text, int context, int vocabulary) {
  const Json object = training::parse_json(text);
  if (!object.is_object()) return Error{"the body must be a JSON object such as {\"prompt\": \"Once\"}"};
  WritingRequest request;
  if (const auto prompt = object.find("prompt"); prompt != object.end()) {
    if (!prompt->is_string()) return Error{"\"prompt\" must be a text"};
    request.prompt = prompt->get<std::string>();
  }
  if (const auto window = object.find("window"); window != object.end()) {
    if (object.contains("prompt")) return Error{"\"prompt\" cannot be combined with \"window\""};
    auto tokens = read_window(*window, context, vocabulary);
    if (!tokens) return tokens.error();
    request.state.emplace().window = std::move(*tokens);
    if (Status fine = read<std::uint64_t>(object, "drawn", 0, kDrawnMax, request.state->drawn); !fine)
      return fine.error();
  }
  constexpr double kTopPLeast = 1e-6;
  models::Sampling& sampling = request.sampling;
  for (const Status& fine :
       {read(object, "temperature", 0.0, kTemperatureMax, sampling.temperature),
        read(object, "top_k", 0, kTopKMax, sampling.top_k),
        read(object, "top_p", kTopPLeast, 1.0, sampling.top_p),
        read<std::uint64_t>(object, "seed", 0, UINT64_MAX, request.seed),
        read<std::uint32_t>(object, "tokens", 1, WritingRequest::kTokensMax, request.tokens)}) {
    if (!fine) return fine.error();
  }
  return request;
}

std::string to_json(const Written& written) {
  return training::to_line({{"text", written.text},
                            {"window", written.state.window},
                            {"drawn", written.state.drawn},
                            {"steps", written.steps}});
}

Result<Written> parse_written(const std::string& text) {
  const Json object = training::parse_json(text);
  Written written;
  try {
    object.at("text").get_to(written.text);
    object.at("window").get_to(written.state.window);
    object.at("drawn").get_to(written.state.drawn);
    object.at("steps").get_to(written.steps);
  } catch (const Json::exception&) {
    return Error{"the answer is not a peer's text"};
  }
  if (written.state.window.empty()) return Error{"the answer has no window of tokens"};
  return written;
}

Result<Written> continue_text(const models::Plan& plan, std::span<const float> parameters,
                              const datasets::text::Tokenizer& tokenizer, const WritingRequest& request) {
  auto writer = training::TextWriter::make(plan, parameters, tokenizer, request.sampling, request.seed);
  if (!writer) return writer.error();
  auto state = request.state ? Result<training::TextState>(*request.state)
                             : training::begin_text(tokenizer, request.prompt, plan.spec.input.tokens);
  if (!state) return state.error();
  Written written{"", std::move(*state)};
  for (std::uint32_t token = 0; token < request.tokens + kMoreForCharacter; ++token) {
    if (token >= request.tokens && training::begun_character(written.text) == 0) break;
    const auto more = writer->write(written.state);
    if (!more) return more.error();
    written.text += *more;
  }
  return written;
}

}  // namespace starling::node
