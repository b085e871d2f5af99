#include "models/spec_text.h"

#include <map>

#include "base/random.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/models/zoo_input.h"

namespace starling::models {
namespace {

// Every kind of layer, with and without its optional fields.
const char* const kEverything =
    R"([{ type = "convolution", channels = 8, kernel = 3, stride = 2, padding = 1, groups = 1, bias = false },
  { type = "convolution", channels = 8, kernel = 3, padding = 1, groups = 2 },  # a comment
  "batch norm", { type = "batch norm", epsilon = 1e-3, momentum = 0.25 }, "relu", "gelu",
  { type = "group norm", groups = 4 }, { type = "group norm", groups = 2, epsilon = 0.001 },
  "layer norm", { type = "layer norm", epsilon = 1e-6 }, "dropout", { type = "dropout", rate = 0 },
  { type = "residual", layers = [ "relu", { type = "residual", layers = [ "gelu" ], shortcut = [] } ], shortcut = [
    { type = "convolution", channels = 8, kernel = 1 },
  ] },
  { type = "max pool", size = 2 }, { type = "average pool", size = 2 }, { type = "relu" }, "global average pool",
  { type = "linear", features = 12 }, "linear" ])";

const char* const kCanonical =
    R"([{ type = "convolution", channels = 8, kernel = 3, stride = 2, padding = 1, bias = false }, )"
    R"({ type = "convolution", channels = 8, kernel = 3, padding = 1, groups = 2 }, )"
    R"("batch norm", { type = "batch norm", epsilon = 0.001, momentum = 0.25 }, "relu", "gelu", )"
    R"({ type = "group norm", groups = 4 }, { type = "group norm", groups = 2, epsilon = 0.001 }, )"
    R"("layer norm", { type = "layer norm", epsilon = 1e-06 }, "dropout", { type = "dropout", rate = 0 }, )"
    R"({ type = "residual", layers = ["relu", { type = "residual", layers = ["gelu"] }], )"
    R"(shortcut = [{ type = "convolution", channels = 8, kernel = 1 }] }, )"
    R"({ type = "max pool", size = 2 }, { type = "average pool", size = 2 }, "relu", "global average pool", )"
    R"({ type = "linear", features = 12 }, "linear"])";

std::string round_trip(const std::string& text, Lines lines = Lines::one) {
  const auto layers = parse_layers(text);
  INFO((layers.ok() ? std::string() : layers.error().message));
  REQUIRE(layers.ok());
  return format_layers(*layers, lines);
}

std::string refusal(const std::string& text) {
  const auto layers = parse_layers(text);
  INFO(text);
  REQUIRE(!layers.ok());
  return layers.error().message;
}

std::string nested(int depth) {
  std::string text = R"("relu")";
  for (int i = 0; i < depth; ++i) text = R"({ type = "residual", layers = [)" + text + "] }";
  return "[" + text + ", \"linear\"]";
}

std::string repeated(int layers) {
  std::string text = "[";
  for (int i = 0; i < layers; ++i) text += "\"relu\",";
  return text + "]";
}

// The zoo's lenet and resnet8 as a user would write them.
const char* const kLenet = R"([
  { type = "convolution", channels = 20, kernel = 3 }, "relu", { type = "average pool", size = 2 },
  { type = "convolution", channels = 50, kernel = 5 }, "relu", { type = "average-pool", size = 2 },
  { type = "linear", features = 128 }, "relu", "linear",
])";

const char* const kResnet8 = R"([
  { type = "convolution", channels = 16, kernel = 3, padding = 1, bias = false }, "batch_norm", "relu",
  { type = "residual", layers = [
    { type = "convolution", channels = 16, kernel = 3, padding = 1, bias = false }, "batch_norm", "relu",
    { type = "convolution", channels = 16, kernel = 3, padding = 1, bias = false }, "batch_norm",
  ] },
  "relu",
  { type = "residual", layers = [
    { type = "convolution", channels = 32, kernel = 3, stride = 2, padding = 1, bias = false }, "batch norm", "relu",
    { type = "convolution", channels = 32, kernel = 3, padding = 1, bias = false }, "batch norm",
  ], shortcut = [ { type = "convolution", channels = 32, kernel = 1, stride = 2, bias = false }, "batch norm" ] },
  "relu",
  { type = "residual", layers = [
    { type = "convolution", channels = 64, kernel = 3, stride = 2, padding = 1, bias = false }, "batch norm", "relu",
    { type = "convolution", channels = 64, kernel = 3, padding = 1, bias = false }, "batch norm",
  ], shortcut = [ { type = "convolution", channels = 64, kernel = 1, stride = 2, bias = false }, "batch norm" ] },
  "relu", "global-average-pool", "linear",
])";

}  // namespace

TEST_CASE("every kind of layer reads back from its canonical text") {
  CHECK(round_trip(kEverything) == kCanonical);
  CHECK(round_trip(kCanonical) == kCanonical);
  const std::string lines = round_trip(kEverything, Lines::many);
  CHECK(round_trip(lines) == kCanonical);
  CHECK(round_trip(lines, Lines::many) == lines);
}

TEST_CASE("fields keep their values, and omitted fields have their defaults") {
  const auto layers = parse_layers(kEverything);
  REQUIRE(layers.ok());
  REQUIRE(layers->size() == 19);
  const auto first = std::get<Convolution>((*layers)[0].kind),
             second = std::get<Convolution>((*layers)[1].kind);
  CHECK((first.channels == 8 && first.kernel == 3 && first.stride == 2 && first.padding == 1 && !first.bias));
  CHECK((second.stride == 1 && second.groups == 2 && second.bias));
  CHECK(std::get<BatchNorm>((*layers)[2].kind).epsilon == BatchNorm{}.epsilon);
  CHECK(std::get<BatchNorm>((*layers)[3].kind).momentum == 0.25);
  CHECK(std::get<Dropout>((*layers)[10].kind).rate == Dropout{}.rate);
  CHECK(std::get<Dropout>((*layers)[11].kind).rate == 0);
  const auto& block = std::get<Residual>((*layers)[12].kind);
  CHECK((block.layers.size() == 2 && block.shortcut.size() == 1));
  CHECK(std::get<Linear>((*layers)[17].kind).features == 12);
  CHECK(std::get<Linear>((*layers)[18].kind).features == 0);
}

TEST_CASE("each layer can have its own line, also within a block") {
  CHECK(round_trip(R"(["relu", { type = "residual", layers = ["gelu", "layer norm"] }, "linear"])",
                   Lines::many) ==
        "[\n  \"relu\",\n  { type = \"residual\", layers = [\n    \"gelu\",\n    \"layer norm\",\n  ] },\n"
        "  \"linear\",\n]");
}

// Parses each text and compares the beginning of the error.
void check_refusals(const std::map<std::string, std::string>& cases) {
  for (const auto& [text, sentence] : cases) {
    INFO(text);
    const std::string message = refusal(text);
    CHECK(message.substr(0, sentence.size()) == sentence);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a wrong field is rejected with the layer's position and the accepted values") {
  check_refusals({
      {R"(["relu", { type = "convolution", channels = 4, kernal = 3 }])",
       "layer 2 (convolution): unknown key 'kernal'; did you mean kernel? It has channels, kernel, stride, "
       "padding, groups or bias"},
      {R"([{ type = "relu", slope = 0.1 }])", "layer 1 (relu): unknown key 'slope'; it has only its type"},
      {R"(["relu", "convolution"])",
       "layer 2 (convolution): 'channels' is missing, a whole number from 1 to 1048576"},
      {R"([{ type = "convolution", channels = 4 }])",
       "layer 1 (convolution): 'kernel' is missing, a whole number from 1 to 1048576"},
      {R"([{ type = "convolution", channels = 0, kernel = 3 }])",
       "layer 1 (convolution): 'channels' must be a whole number from 1 to 1048576"},
      {R"([{ type = "convolution", channels = 1048577, kernel = 3 }])",
       "layer 1 (convolution): 'channels' must be"},
      {R"([{ type = "convolution", channels = 4.0, kernel = 3 }])",
       "layer 1 (convolution): 'channels' must be"},
      {R"([{ type = "convolution", channels = "4", kernel = 3 }])",
       "layer 1 (convolution): 'channels' must be"},
      {R"([{ type = "convolution", channels = 4, kernel = 3, padding = -1 }])",
       "layer 1 (convolution): 'padding' must be a whole number from 0 to 1048576"},
      {R"([{ type = "convolution", channels = 4, kernel = 3, bias = 1 }])",
       "layer 1 (convolution): 'bias' must be true or false"},
      {R"([{ type = "dropout", rate = 1.0 }])",
       "layer 1 (dropout): 'rate' must be a number from 0 to below 1"},
      {R"([{ type = "dropout", rate = nan }])", "layer 1 (dropout): 'rate' must be"},
      {R"([{ type = "dropout", rate = "0.3" }])", "layer 1 (dropout): 'rate' must be"},
      {R"([{ type = "batch norm", momentum = 0 }])",
       "layer 1 (batch norm): 'momentum' must be a number above 0 and at most 1"},
      {R"([{ type = "layer norm", epsilon = inf }])",
       "layer 1 (layer norm): 'epsilon' must be a number above 0 and below 1"},
  });
}

TEST_CASE("an unknown or misplaced layer is rejected with its position and the known layers") {
  check_refusals({
      {R"(["convolutoin"])",
       "layer 1: unknown layer 'convolutoin'; did you mean convolution? The layers are "},
      {R"(["ReLU"])", "layer 1: unknown layer 'ReLU'; did you mean relu? The layers are "},
      {R"(["recurrence"])",
       "layer 1: unknown layer 'recurrence'; the layers are convolution, average pool, max pool, global "
       "average pool, linear, relu, gelu, batch norm, group norm, layer norm, dropout, residual, embedding, "
       "position, attention, swiglu, rms norm or block"},
      {R"(["re\nlu"])", "layer 1: unknown layer 're?lu'; did you mean relu?"},
      {R"([{ channels = 4 }])", "layer 1: 'type' is missing, which is one of convolution, "},
      {R"([{ type = 4 }])", "layer 1: 'type' must be text, one of convolution, "},
      {R"(["relu", 4])", "layer 2: expected a type such as \"relu\" or a table such as { type = \"linear\""},
      {R"([["relu"]])", "layer 1: expected a type such as"},
      {R"(["linear", "relu"])",
       "layer 1 (linear): 'features' is missing; only a network's last layer may omit it, for one per "
       "class"},
      {R"([{ type = "linear", features = 0 }])",
       "layer 1 (linear): 'features' must be a whole number from 1 to"},
      {R"(["relu", { type = "residual", layers = ["gelu", { type = "dropout", rat = 1 }] }])",
       "layer 2 (residual), layer 2 inside (dropout): unknown key 'rat'; did you mean rate?"},
      {R"([{ type = "residual", layers = ["relu"], shortcut = ["relu", "rely"] }])",
       "layer 1 (residual), layer 2 of its shortcut: unknown layer 'rely'; did you mean relu?"},
      {R"([{ type = "residual", layers = ["linear"] }])",
       "layer 1 (residual), layer 1 inside (linear): 'features' is missing"},
      {R"(["residual"])", "layer 1 (residual): 'layers' is missing, an array of at least one layer"},
      {R"([{ type = "residual", layers = [] }])",
       "layer 1 (residual): 'layers' must be an array of at least one layer"},
      {R"([{ type = "residual", layers = ["relu"], shortcut = "relu" }])",
       "layer 1 (residual): 'shortcut' must be an array of layers"},
      {R"([{ type = "residual", layers = ["relu", 3], shortcut = [] }])",
       "layer 1 (residual), layer 2 inside: expected"},
      {"[]", "expected an array of at least one layer, for example [\"relu\", \"linear\"]"},
      {"5", "expected an array of at least one layer"},
      {"", "it is not a TOML array: "},
      {"[\"relu\"", "it is not a TOML array: "},
      {"[\"relu\"]\nmore = 1", "expected one array of layers and nothing after it"},
      {"[\"relu\"]\nlayers = 1", "it is not a TOML array: "},
  });
}

TEST_CASE("an error has the line of the layer") {
  const auto layers = parse_layers(
      "[\n  \"relu\",\n  { type = \"residual\", layers = [\n    \"gelu\",\n    \"x\",\n  ] },\n]");
  REQUIRE(!layers.ok());
  CHECK(layers.error().line == 5);
}

TEST_CASE("a text that is too long, too deep or has too many layers is rejected") {
  CHECK(parse_layers(nested(kResidualDepthMax)).ok());
  CHECK(refusal(nested(kResidualDepthMax + 1)).find("residual blocks may be at most 8 levels deep") !=
        std::string::npos);
  CHECK(!parse_layers(nested(1000)).ok());
  CHECK(!parse_layers(std::string(40'000, '[')).ok());
  CHECK(parse_layers(repeated(1000)).ok());
  CHECK(refusal(repeated(1001)) == "layer 1001: there are more than 1000 layers");
  CHECK(refusal("[" + std::string(kLayersTextMax, ' ') + "]").find("more than 49152 bytes") !=
        std::string::npos);
  // Keys in keys, each of them a table.
  std::string dots = "[{ a";
  for (int i = 0; i < 20'000; ++i) dots += ".a";
  CHECK(refusal(dots + " = 1 }]") == "there are more than 4000 dots");
  dots = "[{ type = \"relu\", a";
  for (int i = 0; i < 3'900; ++i) dots += ".a";
  CHECK(refusal(dots + " = 1 }]") == "layer 1 (relu): unknown key 'a'; it has only its type");
}

TEST_CASE("a damaged text is parsed or rejected with a message") {
  const std::string good = kEverything;
  static const std::string kPieces[] = {"[",           "]",        "{",   "}",  "\"",   ",",     "=",
                                        ".",           "\n",       "'''", "#",  "nan",  "1e999", "-1",
                                        "99999999999", "residual", "\\",  "\0", "\xff", "layers"};
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::string text = good;
    for (std::uint64_t i = 0; i <= random.below(4); ++i) {
      const auto at = static_cast<std::size_t>(random.below(text.size()));
      switch (random.below(4)) {
        case 0:
          text.erase(at, 1 + static_cast<std::size_t>(random.below(8)));
          break;
        case 1:
          text.insert(at, kPieces[random.below(std::size(kPieces))]);
          break;
        case 2:
          text[at] = static_cast<char>(random.below(256));
          break;
        default:
          text.insert(at, text.substr(static_cast<std::size_t>(random.below(text.size())),
                                      static_cast<std::size_t>(random.below(100))));
      }
    }
    INFO("seed " << seed << "\n" << text);
    const auto layers = parse_layers(text);
    if (layers) {
      const std::string canonical = format_layers(*layers);
      CHECK(round_trip(canonical) == canonical);
      (void)make_model(ModelText{"custom", canonical}, {8, 16, 16}, 10);
    } else {
      CHECK(!layers.error().message.empty());
      CHECK(layers.error().message.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("the zoo's networks written as TOML are the zoo's networks") {
  const std::map<std::string, std::pair<std::string, Shape>> cases = {{"lenet", {kLenet, {1, 28, 28}}},
                                                                      {"resnet8", {kResnet8, {3, 32, 32}}}};
  for (const auto& [name, network] : cases) {
    CAPTURE(name);
    const auto zoo = make_model(name, network.second, 10);
    const auto own = make_model(ModelText{"my-net", round_trip(network.first)}, network.second, 10);
    INFO((own.ok() ? std::string() : own.error().message));
    REQUIRE((zoo.ok() && own.ok()));
    CHECK(own->spec.name == "my-net");
    CHECK(own->layout.fingerprint() == zoo->layout.fingerprint());
    REQUIRE(own->layers.size() == zoo->layers.size());
    for (std::size_t i = 0; i < own->layers.size(); ++i) {
      CHECK(own->layers[i].name == zoo->layers[i].name);
      CHECK(own->layers[i].flops_forward == zoo->layers[i].flops_forward);
    }
    std::vector<float> a(zoo->layout.arena_size()), b(own->layout.arena_size());
    initialize(*zoo, Random(7), a);
    initialize(*own, Random(7), b);
    CHECK(a == b);
  }
  // Every network of the zoo can be written.
  for (const std::string& name : model_names()) {
    CAPTURE(name);
    const auto zoo = make_model(name, zoo_input(name), 10);
    const auto own = make_model(ModelText{"my-net", format_layers(zoo->spec.layers)}, zoo_input(name), 10);
    REQUIRE(own.ok());
    CHECK(own->layout.fingerprint() == zoo->layout.fingerprint());
  }
}

TEST_CASE("a network has one logit per class and is limited in size") {
  const auto make = [](const std::string& layers, const std::string& name = "my-net") {
    const auto plan = make_model(ModelText{name, layers}, {1, 28, 28}, 10);
    return plan.ok() ? std::string() : plan.error().message;
  };
  CHECK(make(R"(["linear"])").empty());
  CHECK(make(R"([{ type = "linear", features = 10 }])").empty());
  CHECK(make(R"([{ type = "linear", features = 12 }])") ==
        "model \"my-net\": fc1 yields 12 logits, but there are 10 classes; a last layer \"linear\" without "
        "features has one for each");
  CHECK(make(R"([{ type = "max pool", size = 40 }, "linear"])") ==
        "model \"my-net\": pool1 has a window of 40, larger than its input 1x28x28");
  CHECK(make("[5]").find("model \"my-net\": layer 1: expected a type") == 0);
  CHECK(make(R"(["linear"])", "lenet").find("'lenet' is a network of the zoo") != std::string::npos);
  CHECK(make("", "my-net").find("unknown model \"my-net\"") != std::string::npos);
  CHECK(
      make(R"([{ type = "linear", features = 1000000 }, "linear"])").find("more than 536870912 parameters") !=
      std::string::npos);
  CHECK(make(R"([{ type = "convolution", channels = 1000000, kernel = 1 }, "global average pool", "linear"])")
            .find("the layers up to conv1 yield more than 268435456 values") != std::string::npos);
}

TEST_CASE("a network file has layers and optionally a name, at the top or under [model]") {
  const auto read = [](const std::string& document) {
    const auto model = read_model(document, "file");
    INFO((model.ok() ? std::string() : model.error().message));
    REQUIRE(model.ok());
    return *model;
  };
  const std::string layers = R"(["relu", "linear"])";
  CHECK(read("layers = [\n'relu',\n{ type = 'linear' },\n]") == ModelText{"file", layers});
  CHECK(read("name = 'mine'\nlayers = ['relu', 'linear']") == ModelText{"mine", layers});
  CHECK(read("seed = 3\n[model]\nname = 'mine'\nlayers = ['relu', 'linear']\n[data]\nsource = 'x'") ==
        ModelText{"mine", layers});
  CHECK(read("[[model.layers]]\ntype = 'relu'\n[[model.layers]]\ntype = 'linear'") ==
        ModelText{"file", layers});
  CHECK(read_model("layers = ['linear']", "lenet")->name == "custom");

  const auto refused = [](const std::string& document) {
    const auto model = read_model(document, "file");
    REQUIRE(!model.ok());
    return std::to_string(model.error().line) + ": " + model.error().message;
  };
  CHECK(refused("seed = 3\n[model]\nname = 'lenet'") ==
        "1: it contains no network; expected layers = [ ... ] or type = \"gpt\", at the top or in [model]");
  CHECK(refused("model = 3") ==
        "1: it contains no network; expected layers = [ ... ] or type = \"gpt\", at the top or in [model]");
  CHECK(refused("layers = ['linear']\nlyers = []") ==
        "2: unknown key 'lyers'; a network has layers and optionally a name");
  CHECK(refused("layers = [\n'relu',\n'rely']").find("3: layer 2: unknown layer 'rely'") == 0);
  CHECK(refused("\nlayers = 3").find("2: expected an array") == 0);
  CHECK(refused("name = 'lenet'\nlayers = ['linear']").find("1: name: 'lenet' is a network of the zoo") == 0);
  CHECK(refused("name = 3\nlayers = ['linear']") == "1: name: expected text");
  CHECK(refused("name = ''\nlayers = ['linear']").find("1: name: a network's name must be 1 to 100") == 0);
  CHECK(refused("name = 'a.toml'\nlayers = ['linear']").find("1: name: 'a.toml' looks like a file") == 0);
  CHECK(refused("\n\nlayers = [").find("3: ") == 0);
}

}  // namespace starling::models
