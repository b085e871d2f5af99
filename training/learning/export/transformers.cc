#include "training/learning/export/transformers.h"

#include <array>
#include <filesystem>
#include <optional>

#include "datasets/text/bpe.h"
#include "models/gpt.h"
#include "training/learning/export/tokenizer_json.h"
#include "training/runs/records/files.h"
#include "training/runs/records/gpt_names.h"
#include "training/runs/records/json.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {
namespace {

using datasets::text::AnyTokenizer;

constexpr double kEpsilon = 1e-5;  // of layer norms in a block
constexpr const char* kEndOfText = "<|endoftext|>";

// What GPT-2's configuration needs of a network.
struct Gpt2 {
  models::Embedding embedding{};
  double dropout = 0;  // behind the embedding
  models::TransformerBlock block{};
  int blocks = 0;
  bool tied = false;
};

// The next layer, if it is of this type.
template <class T>
const T* take(std::span<const models::Layer>& layers) {
  const T* found = layers.empty() ? nullptr : std::get_if<T>(&layers.front().kind);
  if (found != nullptr) layers = layers.subspan(1);
  return found;
}

// Why GPT-2 has no such block; empty if it has.
const char* hindrance(const models::TransformerBlock& block) {
  if (block.rms) return "its blocks have RMS norms, and GPT-2's have layer norms";
  if (block.swiglu) return "its blocks have SwiGLU, and GPT-2's have GELU";
  if (block.rotary) return "its positions are rotary, and GPT-2's are learned";
  if (block.groups != 0 && block.groups != block.heads)
    return "its heads share keys and values, and each of GPT-2's has its own";
  return "";
}

bool are_alike(const models::TransformerBlock& a, const models::TransformerBlock& b) {
  return a.heads == b.heads && a.hidden == b.hidden && a.tanh == b.tanh && a.dropout == b.dropout;
}

Result<Gpt2> as_gpt2(const models::Plan& plan) {
  std::span<const models::Layer> layers(plan.spec.layers);
  Gpt2 gpt;
  const auto* embedding = take<models::Embedding>(layers);
  if (embedding == nullptr) return Error{"it is no network for text"};
  gpt.embedding = *embedding;
  const bool has_positions = take<models::Position>(layers) != nullptr;
  if (const auto* dropout = take<models::Dropout>(layers)) gpt.dropout = dropout->rate;
  for (; const auto* block = take<models::TransformerBlock>(layers); ++gpt.blocks) {
    if (const std::string why = hindrance(*block); !why.empty()) return Error{why};
    if (gpt.blocks == 0) gpt.block = *block;
    if (!are_alike(gpt.block, *block)) return Error{"its blocks differ, and GPT-2's are alike"};
  }
  if (!has_positions) return Error{"it has no layer of positions, which GPT-2 adds to the embedding"};
  const auto* norm = take<models::LayerNorm>(layers);
  const auto* last = take<models::Linear>(layers);
  if (gpt.blocks == 0 || norm == nullptr || norm->epsilon != kEpsilon || last == nullptr || !layers.empty())
    return Error{
        "it is not an embedding, positions, blocks, a layer norm with an epsilon of 1e-5 and a linear layer, "
        "as GPT-2 "
        "is"};
  gpt.tied = last->tied;
  if (!last->tied && last->bias) return Error{"its output layer has biases, and GPT-2's has none"};
  if (gpt.embedding.tokens != plan.classes)
    return Error{"its embedding and its output layer have different numbers of tokens"};
  return gpt;
}

// The number of <|endoftext|>, if the tokenizer has it.
std::optional<std::uint16_t> end_of_text(const AnyTokenizer& tokenizer) {
  const auto* rules = tokenizer == nullptr ? nullptr : datasets::text::rules_of(*tokenizer);
  if (rules == nullptr) return std::nullopt;
  for (const datasets::text::OtherToken& other : rules->others)
    if (other.bytes == kEndOfText) return other.token;
  return std::nullopt;
}

Json configuration(const Gpt2& gpt, const AnyTokenizer& tokenizer) {
  const int features = gpt.embedding.features;
  const Json end = or_null(end_of_text(tokenizer));
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", gpt.embedding.tokens},
          {"n_positions", gpt.embedding.context},
          {"n_embd", features},
          {"n_layer", gpt.blocks},
          {"n_head", gpt.block.heads},
          {"n_inner", gpt.block.hidden == 0 ? 4 * features : gpt.block.hidden},
          {"activation_function", gpt.block.tanh ? "gelu_new" : "gelu"},
          {"layer_norm_epsilon", kEpsilon},
          {"embd_pdrop", gpt.dropout},
          {"attn_pdrop", gpt.block.dropout},
          {"resid_pdrop", gpt.block.dropout},
          {"tie_word_embeddings", gpt.tied},
          {"bos_token_id", end},
          {"eos_token_id", end},
          {"torch_dtype", "float32"}};
}

// The tensors in GPT-2's forms, and the memory of those that differ from the network's.
class Gpt2Tensors {
 public:
  // REQUIRES: as_gpt2() accepts the plan.
  Gpt2Tensors(const models::Plan& plan, std::span<const float> parameters) {
    std::vector<NamedShape> ours;
    for (const models::Tensor& tensor : plan.layout.tensors()) ours.emplace_back(tensor.name, tensor.shape);
    const auto theirs = gpt_tensors(ours);
    STARLING_CHECK(theirs.has_value());
    for (std::size_t i = 0; i < theirs->size(); ++i) {
      const models::Tensor& tensor = plan.layout.tensors()[i];
      add((*theirs)[i], tensor.shape, parameters.subspan(tensor.offset, tensor.size));
      const bool has_bias = i + 1 < theirs->size() && (*theirs)[i + 1].name.ends_with(".bias");
      if (needs_bias((*theirs)[i].name) && !has_bias) add_zeros((*theirs)[i].name, tensor.shape.front());
    }
  }
  std::span<const TensorToWrite> tensors() const { return tensors_; }

 private:
  static bool needs_bias(const std::string& name) {
    return name.ends_with(".weight") && !name.starts_with("wte.") && !name.starts_with("wpe.") &&
           name != kGptHead;
  }
  void add(const GptTensor& tensor, const std::vector<std::int64_t>& shape, std::span<const float> values) {
    const std::string name = tensor.name == kGptHead ? tensor.name : kGptPrefix + tensor.name;
    if (!tensor.linear) {
      tensors_.push_back({name, "F32", shape, std::as_bytes(values)});
      return;
    }
    const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
    std::vector<float>& turned = own_.emplace_back(values.size());
    transpose_weights(values, rows, columns, turned.data());
    tensors_.push_back({name, "F32", {shape[1], shape[0]}, std::as_bytes(std::span(turned))});
  }
  void add_zeros(std::string weight, std::int64_t count) {
    const std::size_t end = weight.size() - std::string_view("weight").size();
    const std::vector<float>& zeros = own_.emplace_back(static_cast<std::size_t>(count), 0.0F);
    tensors_.push_back(
        {kGptPrefix + weight.substr(0, end) + "bias", "F32", {count}, std::as_bytes(std::span(zeros))});
  }

  std::vector<std::vector<float>> own_;
  std::vector<TensorToWrite> tensors_;
};

Json tokenizer_configuration(const Gpt2& gpt, const AnyTokenizer& tokenizer) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", gpt.embedding.context},
               {"clean_up_tokenization_spaces", false}};
  if (end_of_text(tokenizer)) json.update({{"bos_token", kEndOfText}, {"eos_token", kEndOfText}});
  return json;
}

std::string indented(const Json& json) { return json.dump(2) + "\n"; }

constexpr std::array kFiles = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"};

// An Error if the folder has one of these files and not this configuration: then they are another model's.
Status check_folder(const std::string& folder, const std::string& config) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  const auto there = read_own_text(folder + "/config.json", kLargest);
  if (there && *there == config) return Done{};
  std::error_code none;
  for (const char* file : kFiles)
    if (std::filesystem::exists(folder + "/" + file, none))
      return Error{folder + "/" + file +
                   " is of another model; choose another folder, or replace its files with --force"};
  return Done{};
}

}  // namespace

Status write_transformers(const std::string& folder, const models::Plan& plan,
                          std::span<const float> parameters, const AnyTokenizer& tokenizer, bool force) {
  const auto gpt = as_gpt2(plan);
  if (!gpt) return Error{"the GPT-2 of transformers cannot compute this network: " + gpt.error().message};
  std::string tokens;
  if (tokenizer != nullptr) {
    auto file = tokenizer_json(*tokenizer);
    if (!file) return Error{"its tokenizer: " + file.error().message};
    tokens = std::move(*file);
  }
  const std::string config = indented(configuration(*gpt, tokenizer));
  if (Status free = force ? Done{} : check_folder(folder, config); !free) return free;
  std::error_code wrong;
  std::filesystem::create_directories(folder, wrong);
  if (wrong) return Error{"cannot make the folder " + folder + ": " + wrong.message()};
  const Gpt2Tensors tensors(plan, parameters);
  if (Status written = write_tensors(folder + "/model.safetensors", tensors.tensors(), {{"format", "pt"}});
      !written)
    return written;
  if (tokenizer != nullptr) {
    if (Status written = write_text(folder + "/tokenizer.json", tokens); !written) return written;
    if (Status written =
            write_text(folder + "/tokenizer_config.json", indented(tokenizer_configuration(*gpt, tokenizer)));
        !written)
      return written;
  }
  return write_text(folder + "/config.json", config);
}

}  // namespace starling::training
