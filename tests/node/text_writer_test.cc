#include "training/learning/text_writer.h"

#include <algorithm>
#include <limits>

#include "datasets/text/bytes.h"
#include "datasets/text/characters.h"
#include "models/network.h"
#include "models/spec_text.h"
#include "node/front/writing.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::training {
namespace {

using datasets::text::AnyTokenizer;

AnyTokenizer letters() {
  const std::vector<std::string_view> texts{"\nabcdefgh"};
  return std::move(datasets::text::make_characters(texts)).value();
}

struct Author {
  AnyTokenizer tokenizer = letters();
  models::Plan plan = std::move(models::make_model("gpt-tiny", {1, 1, 1, 64}, 9)).value();
  std::vector<float> parameters = [this] {
    std::vector<float> values(plan.layout.arena_size());
    models::initialize(plan, Random(3), values);
    return values;
  }();

  TextWriter writer(std::uint64_t seed) const {
    auto made = TextWriter::make(plan, parameters, *tokenizer, {}, seed);
    REQUIRE(made.ok());
    return std::move(*made);
  }
  std::string text(std::uint64_t seed, int tokens) const {
    auto author = writer(seed);
    auto state = std::move(begin_text(*tokenizer, "abc", 64)).value();
    std::string written;
    for (int i = 0; i < tokens; ++i) written += author.write(state).value();
    return written;
  }
};

}  // namespace

TEST_CASE("the same seed writes the same text, and another seed another one") {
  const Author author;
  const std::string text = author.text(1, 200);
  CHECK(text.size() == 200);
  CHECK(author.text(1, 200) == text);
  CHECK(author.text(2, 200) != text);
}

TEST_CASE("a network whose outputs are not finite writes no token, and says why") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
    Author author;
    std::ranges::fill(author.parameters, bad);
    auto writer = author.writer(1);
    auto state = std::move(begin_text(*author.tokenizer, "abc", 64)).value();
    const auto before = state.window;
    const auto token = writer.write(state);
    REQUIRE_FALSE(token.ok());
    CHECK(contains(token.error().message, "not finite numbers"));
    CHECK(state.window == before);
    CHECK(state.drawn == 0);
    const auto text = node::continue_text(author.plan, author.parameters, *author.tokenizer, {});
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().message == token.error().message);
  }
}

TEST_CASE("another writer continues from the state without a difference, also where the window is cut") {
  const Author author;
  const std::string whole = author.text(7, 150);
  auto state = std::move(begin_text(*author.tokenizer, "abc", 64)).value();
  std::string pieces;
  for (int piece = 0; piece < 30; ++piece) {
    auto writer = author.writer(7);
    for (int i = 0; i < 5; ++i) pieces += writer.write(state).value();
  }
  CHECK(pieces == whole);
  CHECK(state.drawn == 150);
}

TEST_CASE(
    "the window begins with the end of the prompt, uses the whole context, and then keeps its later half") {
  const AnyTokenizer tokenizer = letters();
  CHECK(begin_text(*tokenizer, "", 8)->window == std::vector<std::uint32_t>{0});  // the line end
  CHECK(begin_text(*datasets::text::make_bytes(), "", 8)->window == std::vector<std::uint32_t>{10});
  CHECK(begin_text(*tokenizer, "abcdefg", 8)->window.size() == 7);
  CHECK(begin_text(*tokenizer, "abcdefgh", 8)->window.size() == 8);
  CHECK(begin_text(*tokenizer, "habcdefgh", 8)->window == begin_text(*tokenizer, "abcdefgh", 8)->window);
  CHECK(contains(begin_text(*tokenizer, "abx", 8).error().message, "'x' (U+0078) at byte 2"));
  TextState state{{1, 2, 3, 4, 5, 6}};
  extend(state, 7, 8);
  CHECK(state.window.size() == 7);
  extend(state, 8, 8);
  CHECK(state.window.size() == 8);
  extend(state, 3, 8);
  CHECK(state.window == std::vector<std::uint32_t>{6, 7, 8, 3});
}

TEST_CASE("a request to continue a text is read back, and a wrong one is refused in one sentence") {
  using node::parse_writing_request;
  node::WritingRequest request;
  request.prompt = "ab \"é\"";
  request.sampling = {0.5, 3, 0.9};
  request.seed = UINT64_MAX;
  request.tokens = 16;
  const auto first = parse_writing_request(node::to_json(request), 8, 9);
  REQUIRE(first.ok());
  CHECK(first->prompt == request.prompt);
  CHECK(first->sampling.temperature == 0.5);
  CHECK(first->sampling.top_k == 3);
  CHECK(first->sampling.top_p == 0.9);
  CHECK(first->seed == UINT64_MAX);
  CHECK(first->tokens == 16);
  request.state = TextState{{1, 8}, 40};
  const auto later = parse_writing_request(node::to_json(request), 8, 9);
  REQUIRE((later.ok() && later->state));
  CHECK(later->state->window == std::vector<std::uint32_t>{1, 8});
  CHECK(later->state->drawn == 40);

  const auto why = [](const char* text) {
    const auto read = parse_writing_request(text, 8, 9);
    REQUIRE_FALSE(read.ok());
    return read.error().message;
  };
  CHECK(contains(why(""), "the body must be a JSON object"));
  CHECK(contains(why("[1]"), "the body must be a JSON object"));
  CHECK(why(R"({"prompt": 3})") == "\"prompt\" must be a text");
  CHECK(why(R"({"window": []})") == "\"window\" must be a list of 1 to 8 tokens");
  CHECK(why(R"({"window": [1,1,1,1,1,1,1,1,1]})") == "\"window\" must be a list of 1 to 8 tokens");
  CHECK(why(R"({"window": [1, 9]})") == "\"window\": token 2 is not a whole number below 9");
  CHECK(why(R"({"window": [-1]})") == "\"window\": token 1 is not a whole number below 9");
  CHECK(contains(why(R"({"window": [1], "prompt": "a"})"), "cannot be combined"));
  CHECK(why(R"({"tokens": 257})") == "\"tokens\" must be a whole number from 1 to 256");
  CHECK(why(R"({"tokens": 1.5})") == "\"tokens\" must be a whole number from 1 to 256");
  CHECK(contains(why(R"({"temperature": -1})"), "\"temperature\" must be a number from 0 to 100"));
  CHECK(contains(why(R"({"top_p": 0})"), "\"top_p\" must be a number"));
  CHECK(contains(why(R"({"seed": -1})"), "\"seed\" must be a whole number"));
}

TEST_CASE("a peer's pieces of a text are those of one writer, and end with whole characters") {
  const Author author;
  node::WritingRequest request;
  request.prompt = "abc";
  request.seed = 7;
  request.tokens = 25;
  std::string pieces;
  for (int piece = 0; piece < 4; ++piece) {
    const auto read = node::parse_writing_request(node::to_json(request), 64, 9);
    REQUIRE(read.ok());
    const auto written = node::continue_text(author.plan, author.parameters, *author.tokenizer, *read);
    REQUIRE(written.ok());
    const auto answer = node::parse_written(node::to_json(*written));
    REQUIRE(answer.ok());
    pieces += answer->text;
    request.state = answer->state;
  }
  CHECK(pieces == author.text(7, 100));

  // Bytes: a piece goes on until its last character is whole, at most 3 tokens.
  const auto bytes = datasets::text::make_bytes();
  const models::Plan plan = std::move(models::make_model("gpt-tiny", {1, 1, 1, 64}, 256)).value();
  std::vector<float> parameters(plan.layout.arena_size());
  models::initialize(plan, Random(3), parameters);
  request = {};
  request.prompt = "é";
  request.tokens = 5;
  const auto written = node::continue_text(plan, parameters, *bytes, request);
  REQUIRE(written.ok());
  CHECK(written->state.drawn >= 5);
  CHECK(written->state.drawn <= 8);
  CHECK(written->text.size() == written->state.drawn);
}

}  // namespace starling::training
