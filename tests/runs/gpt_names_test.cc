#include "training/runs/records/gpt_names.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "models/network.h"
#include "models/spec_text.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/records/checkpoint.h"

namespace starling::training {
namespace {

models::ModelText small_text(const std::string& more) {
  const std::string network = "type = 'gpt'\nlayers = 2\nheads = 2\nfeatures = 8\ncontext = 6\n" + more;
  auto text = models::read_model(network, "small");
  REQUIRE(text.ok());
  return std::move(*text);
}

models::Plan small_gpt(const std::string& more) {
  auto plan = models::make_model(small_text(more), {1, 1, 1, 6}, 11);
  REQUIRE(plan.ok());
  return std::move(*plan);
}

std::vector<float> drawn(const models::Plan& plan) {
  std::vector<float> parameters(plan.layout.arena_size());
  Random random(4);
  for (const models::Tensor& tensor : plan.layout.tensors()) {
    for (std::size_t i = 0; i < tensor.size; ++i)
      parameters[tensor.offset + i] = static_cast<float>(random.normal());
  }
  return parameters;
}

// A file's tensors, to be changed and written again.
struct Copied {
  explicit Copied(const std::string& path) {
    const auto file = SafetensorsFile::open(path);
    REQUIRE(file.ok());
    for (const SafetensorsEntry& entry : file->entries()) {
      values.emplace_back((entry.end - entry.begin) / sizeof(float));
      REQUIRE(file->read(entry, std::as_writable_bytes(std::span(values.back()))).ok());
      tensors.push_back({entry.name, "F32", entry.shape, {}});
    }
  }
  std::size_t at(const std::string& name) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name == name) return i;
    }
    FAIL("no tensor " << name);
    return 0;
  }
  void write(const std::string& path) {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(values[i]));
    REQUIRE(write_tensors(path, tensors, {}).ok());
  }
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<float>> values;
};

}  // namespace

TEST_CASE("a GPT is written and read under the names of nanoGPT and of GPT-2") {
  const TemporaryFolder folder;
  for (const std::string more : {"", "bias = false", "tied = false\ntanh = true"}) {
    const models::Plan plan = small_gpt(more);
    const std::vector<float> parameters = drawn(plan);
    REQUIRE(write_safetensors(folder.file("own"), plan.layout, parameters, {}).ok());
    for (const TensorNames names : {TensorNames::starling, TensorNames::nanogpt, TensorNames::gpt2}) {
      REQUIRE(export_parameters(folder.file("own"), folder.file("out"), names).ok());
      const auto read = read_safetensors(folder.file("out"), plan.layout);
      INFO((read ? "" : read.error().message));
      REQUIRE(read.ok());
      CHECK(read->arena == parameters);
    }
  }
}

TEST_CASE("GPT-2's names have linear layers as [in, out], nanoGPT's as [out, in]") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  const std::vector<float> parameters = drawn(plan);
  REQUIRE(write_safetensors(folder.file("own"), plan.layout, parameters, {}).ok());
  REQUIRE(export_parameters(folder.file("own"), folder.file("nano"), TensorNames::nanogpt).ok());
  REQUIRE(export_parameters(folder.file("own"), folder.file("gpt2"), TensorNames::gpt2).ok());
  const Copied nano(folder.file("nano")), gpt2(folder.file("gpt2"));
  const std::vector<std::string> names = {"wte.weight",
                                          "wpe.weight",
                                          "h.0.ln_1.weight",
                                          "h.0.ln_1.bias",
                                          "h.0.attn.c_attn.weight",
                                          "h.0.attn.c_attn.bias",
                                          "h.0.attn.c_proj.weight",
                                          "h.0.attn.c_proj.bias",
                                          "h.0.ln_2.weight",
                                          "h.0.ln_2.bias",
                                          "h.0.mlp.c_fc.weight",
                                          "h.0.mlp.c_fc.bias",
                                          "h.0.mlp.c_proj.weight",
                                          "h.0.mlp.c_proj.bias"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(nano.tensors[i].name == "transformer." + names[i]);
    CHECK(gpt2.tensors[i].name == "transformer." + names[i]);
  }
  CHECK(nano.tensors.back().name == "lm_head.weight");
  CHECK(nano.values.back() == nano.values.front());
  const std::size_t fc = nano.at("transformer.h.1.mlp.c_fc.weight");
  CHECK(nano.tensors[fc].shape == std::vector<std::int64_t>{32, 8});
  CHECK(gpt2.tensors[fc].shape == std::vector<std::int64_t>{8, 32});
  for (std::size_t out = 0; out < 32; ++out) {
    for (std::size_t in = 0; in < 8; ++in)
      REQUIRE(gpt2.values[fc][in * 32 + out] == nano.values[fc][out * 8 + in]);
  }
  CHECK(nano.values[nano.at("transformer.h.1.ln_2.weight")] ==
        gpt2.values[gpt2.at("transformer.h.1.ln_2.weight")]);
}

TEST_CASE("files without the prefix, with masks and with PyTorch's compiled names are read") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  const std::vector<float> parameters = drawn(plan);
  REQUIRE(write_safetensors(folder.file("own"), plan.layout, parameters, {}).ok());
  REQUIRE(export_parameters(folder.file("own"), folder.file("gpt2"), TensorNames::gpt2).ok());
  Copied bare(folder.file("gpt2"));
  bare.tensors.pop_back();
  bare.values.pop_back();
  for (TensorToWrite& tensor : bare.tensors) tensor.name = tensor.name.substr(std::strlen("transformer."));
  bare.tensors.push_back({"h.0.attn.bias", "F32", {1, 1, 6, 6}, {}});
  bare.values.emplace_back(36, 1.0F);
  bare.write(folder.file("bare"));
  const auto read = read_safetensors(folder.file("bare"), plan.layout);
  REQUIRE(read.ok());
  CHECK(read->arena == parameters);

  REQUIRE(export_parameters(folder.file("own"), folder.file("nano"), TensorNames::nanogpt).ok());
  Copied compiled(folder.file("nano"));
  for (TensorToWrite& tensor : compiled.tensors) tensor.name = "_orig_mod." + tensor.name;
  compiled.write(folder.file("compiled"));
  REQUIRE(read_safetensors(folder.file("compiled"), plan.layout).ok());

  // Another output layer than the embedding, a missing tensor, an unknown one.
  compiled.values.back()[3] += 1;
  compiled.write(folder.file("untied"));
  CHECK(contains(read_safetensors(folder.file("untied"), plan.layout).error().message,
                 "its _orig_mod.lm_head.weight differs from _orig_mod.transformer.wte.weight"));
  Copied lacking(folder.file("nano"));
  lacking.tensors.erase(lacking.tensors.begin() + 3);
  lacking.values.erase(lacking.values.begin() + 3);
  lacking.write(folder.file("lacking"));
  CHECK(contains(read_safetensors(folder.file("lacking"), plan.layout).error().message,
                 "it has no tensor 'transformer.h.0.ln_1.bias'"));
  Copied more(folder.file("nano"));
  more.tensors.push_back({"transformer.h.2.ln_1.weight", "F32", {8}, {}});
  more.values.emplace_back(8, 1.0F);
  more.write(folder.file("more"));
  CHECK(contains(read_safetensors(folder.file("more"), plan.layout).error().message,
                 "tensor 'transformer.h.2.ln_1.weight' does not belong to this one"));
  CHECK(contains(read_safetensors(folder.file("nano"), small_gpt("hidden = 16").layout).error().message,
                 "tensor 'transformer.h.0.mlp.c_fc.weight' has shape [32, 8], expected [16, 8]"));
}

TEST_CASE("an export does not depend on the order and the type of the tensors in the file") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  REQUIRE(
      write_safetensors(folder.file("own"), plan.layout, drawn(plan), model_metadata(small_text(""))).ok());
  REQUIRE(export_parameters(folder.file("own"), folder.file("right"), TensorNames::gpt2).ok());
  Copied copied(folder.file("own"));
  std::vector<std::size_t> order(copied.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return copied.tensors[i].name; });
  std::vector<std::vector<double>> doubles(order.size());
  std::vector<TensorToWrite> sorted;
  for (const std::size_t i : order) {
    doubles[i].assign(copied.values[i].begin(), copied.values[i].end());
    sorted.push_back(
        {copied.tensors[i].name, "F64", copied.tensors[i].shape, std::as_bytes(std::span(doubles[i]))});
  }
  REQUIRE(write_tensors(folder.file("sorted"), sorted, model_metadata(small_text(""))).ok());
  REQUIRE(export_parameters(folder.file("sorted"), folder.file("out"), TensorNames::gpt2).ok());
  CHECK(contents(folder.file("out")) == contents(folder.file("right")));
}

TEST_CASE("a vocabulary that is padded is read without its rows beyond the tokens") {
  const TemporaryFolder folder;
  // Hidden layers may have as many outputs as the vocabulary has tokens.
  for (const std::string more : {"", "tied = false", "hidden = 11", "hidden = 11\ntied = false"}) {
    const models::Plan plan = small_gpt(more);
    REQUIRE(write_safetensors(folder.file("own"), plan.layout, drawn(plan), {}).ok());
    REQUIRE(export_parameters(folder.file("own"), folder.file("nano"), TensorNames::nanogpt).ok());
    Copied copied(folder.file("nano"));
    const auto pad = [&](std::int64_t rows) {
      for (const char* name : {"transformer.wte.weight", "lm_head.weight"}) {
        const std::size_t i = copied.at(name);
        copied.tensors[i].shape[0] += rows;
        copied.values[i].resize(copied.values[i].size() + 8 * static_cast<std::size_t>(rows), 99.0F);
      }
      const auto bias = std::ranges::find(copied.tensors, "lm_head.bias", &TensorToWrite::name);
      if (bias == copied.tensors.end()) return;
      bias->shape[0] += rows;
      copied.values[static_cast<std::size_t>(bias - copied.tensors.begin())].resize(
          static_cast<std::size_t>(bias->shape[0]), 99.0F);
    };
    pad(5);
    copied.write(folder.file("padded"));
    const auto read = read_safetensors(folder.file("padded"), plan.layout);
    INFO((read.ok() ? "" : read.error().message));
    REQUIRE(read.ok());
    CHECK(read->arena == drawn(plan));
    CHECK(contains(read->note, "has 5 rows of the vocabulary beyond the tokens; they are left out"));
    pad(kPaddingMax - 5);
    copied.write(folder.file("other"));
    CHECK(contains(read_safetensors(folder.file("other"), plan.layout).error().message,
                   "has a vocabulary of 139 tokens, but the data or the tokenizer has 11"));
  }
}

TEST_CASE("an export does not overwrite the file that it reads") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  REQUIRE(write_safetensors(folder.file("own"), plan.layout, drawn(plan), {}).ok());
  std::filesystem::create_hard_link(folder.file("own"), folder.file("link"));
  const std::string before = contents(folder.file("own"));
  const auto exported = export_parameters(folder.file("own"), folder.file("link"));
  REQUIRE_FALSE(exported.ok());
  CHECK(contains(exported.error().message, "which is read"));
  CHECK(contents(folder.file("own")) == before);
}

TEST_CASE("a file without metadata is exported under other names if the network is named") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  REQUIRE(write_safetensors(folder.file("own"), plan.layout, drawn(plan), {}).ok());
  REQUIRE(export_parameters(folder.file("own"), folder.file("right"), TensorNames::gpt2).ok());
  Copied copied(folder.file("own"));  // in the order of their names, as another program saves them
  std::vector<std::size_t> order(copied.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return copied.tensors[i].name; });
  std::vector<TensorToWrite> sorted;
  for (const std::size_t i : order) {
    sorted.push_back(copied.tensors[i]);
    sorted.back().bytes = std::as_bytes(std::span(copied.values[i]));
  }
  REQUIRE(write_tensors(folder.file("sorted"), sorted, {}).ok());
  const Status unknown = export_parameters(folder.file("sorted"), folder.file("out"), TensorNames::gpt2);
  REQUIRE_FALSE(unknown.ok());
  CHECK(contains(unknown.error().message,
                 "does not name its network, and its tensors are not in the order of"));
  REQUIRE(
      export_parameters(folder.file("sorted"), folder.file("out"), TensorNames::gpt2, small_text("")).ok());
  CHECK(Copied(folder.file("out")).values == Copied(folder.file("right")).values);
}

TEST_CASE("a checkpoint of a simulation is no model") {
  const TemporaryFolder folder;
  const models::Plan plan = small_gpt("");
  REQUIRE(write_safetensors(folder.file("own"), plan.layout, drawn(plan), {{kSimulationFact, "1"}}).ok());
  for (const Status& status : {export_parameters(folder.file("own"), folder.file("out")),
                               Status(read_metadata(folder.file("own")).error())})
    CHECK(contains(status.error().message,
                   "is a checkpoint of a simulation, from which only that run resumes"));
  CHECK_FALSE(std::filesystem::exists(folder.file("out")));
}

TEST_CASE("networks of another structure have no names of GPT-2") {
  const TemporaryFolder folder;
  for (const std::string more : {"rotary = true", "swiglu = true", "groups = 1"}) {
    const models::Plan plan = small_gpt(more);
    REQUIRE(write_safetensors(folder.file("own"), plan.layout, drawn(plan), {}).ok());
    const auto exported =
        export_parameters(folder.file("own"), folder.file("out"), TensorNames::gpt2, small_text(more));
    REQUIRE_FALSE(exported.ok());
    CHECK(contains(exported.error().message, "holds no network of GPT-2's kind"));
  }
  CHECK_FALSE(gpt_tensors({}));
}

}  // namespace starling::training
