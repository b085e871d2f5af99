#include "training/learning/export/tokenizer_json.h"

#include "datasets/text/bpe.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

datasets::text::BpeRules small_rules() {
  datasets::text::BpeRules rules;
  rules.size = 259;
  for (std::size_t byte = 0; byte < 256; ++byte) rules.bytes[byte] = static_cast<std::uint16_t>(byte);
  rules.merges = {{' ', 'a', 256}, {256, 'b', 257}};
  rules.others = {{258, "<|endoftext|>"}};
  return rules;
}

}  // namespace

TEST_CASE("tokenizer.json has the merges and the special tokens of a byte-pair encoding") {
  const auto tokenizer = datasets::text::make_bpe(small_rules());
  REQUIRE(tokenizer.ok());
  const auto text = tokenizer_json(**tokenizer);
  REQUIRE(text.ok());
  const Json file = Json::parse(*text);
  const Json& model = file.at("model");
  CHECK(model.at("vocab").size() == 259);
  CHECK(model.at("vocab").at("\u0120ab") == 257);  // GPT-2's letter for a space
  CHECK(model.at("vocab").at("\u00e9") == 0xe9);
  CHECK(model.at("merges") == Json({"\u0120 a", "\u0120a b"}));
  REQUIRE(file.at("added_tokens").size() == 1);
  CHECK(file.at("added_tokens")[0].at("id") == 258);
  CHECK(file.at("added_tokens")[0].at("content") == "<|endoftext|>");
}

TEST_CASE("tokens that tokenizer.json cannot represent are an error that names them") {
  auto rules = small_rules();
  rules.others.front().bytes = " ab";
  const auto twice = datasets::text::make_bpe(rules);
  REQUIRE(twice.ok());
  CHECK(contains(tokenizer_json(**twice).error().message, "the tokens 257 and 258 have the same bytes"));
  rules.others.front().bytes = "<|\xff|>";
  const auto bytes = datasets::text::make_bpe(rules);
  REQUIRE(bytes.ok());
  CHECK(contains(tokenizer_json(**bytes).error().message, "the special token 258 is not UTF-8"));
}

}  // namespace starling::training
