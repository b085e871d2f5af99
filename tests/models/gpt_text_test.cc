// A network file with type = "gpt" instead of a list of layers.
#include "models/gpt.h"
#include "models/spec_text.h"
#include "tests/catch.h"

namespace starling::models {
namespace {

std::string gpt_refusal(const std::string& document) {
  const auto model = read_model(document, "file");
  REQUIRE_FALSE(model.ok());
  return std::to_string(model.error().line) + ": " + model.error().message;
}

}  // namespace

TEST_CASE("a network file of type gpt has the layers of gpt_layers()") {
  const auto model = read_model(
      "[model]\ntype = 'gpt'\nlayers = 2\nheads = 4\nfeatures = 64\ncontext = 32\nname = 'mine'\n", "file");
  REQUIRE(model.ok());
  CHECK(model->name == "mine");
  CHECK(model->layers == format_layers(gpt_layers({2, 4, 64, 32})));
  CHECK(context_of(*model) == 32);

  const auto other = read_model(
      "type = 'gpt'\nlayers = 1\nheads = 4\nfeatures = 64\ncontext = 8\ngroups = 2\nhidden = 96\nrms = true\n"
      "swiglu = true\nrotary = true\nbias = false\ntied = false\ndropout = 0.25",
      "file");
  REQUIRE(other.ok());
  Gpt wanted{1, 4, 64, 8, 2, 96};
  wanted.rms = wanted.swiglu = wanted.rotary = true;
  wanted.bias = wanted.tied = false;
  wanted.dropout = 0.25;
  CHECK(other->layers == format_layers(gpt_layers(wanted)));
}

TEST_CASE("a wrong key or value of a gpt is refused with its line and range") {
  const std::string rest = "heads = 4\nfeatures = 64\ncontext = 32\n";
  CHECK(gpt_refusal("type = 'lstm'\n" + rest) ==
        "1: the network: 'type' must be \"gpt\"; a network of other layers has layers = [ ... ] and no type");
  CHECK(gpt_refusal("type = 3\n").find("1: the network: 'type' must be \"gpt\"") == 0);
  CHECK(gpt_refusal("type = 'gpt'\n" + rest) ==
        "1: the network: 'layers' is missing, a whole number from 1 to 1048576");
  CHECK(gpt_refusal("type = 'gpt'\nlayers = []\n" + rest) ==
        "1: the network: 'layers' must be a whole number from 1 to 1048576");
  CHECK(gpt_refusal("type = 'gpt'\nlayers = 1001\n" + rest) ==
        "1: the network: 'layers' must be at most 1000");
  CHECK(gpt_refusal("type = 'gpt'\nlayers = 2\nhead = 4\n" + rest)
            .find("1: the network: unknown key 'head'; did you mean heads? It has layers, heads,") == 0);
  CHECK(gpt_refusal("type = 'gpt'\nlayers = 2\ndropout = 1\n" + rest) ==
        "1: the network: 'dropout' must be a number from 0 to below 1");
  const auto uneven = read_model("type = 'gpt'\nlayers = 2\nheads = 3\nfeatures = 64\ncontext = 32", "file");
  REQUIRE(uneven.ok());
  CHECK_FALSE(make_model(*uneven, {1, 1, 1, 32}, 10).ok());
}

}  // namespace starling::models
