// starling generate: a text, continued by a saved model or by a running peer's.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/look/ask.h"
#include "cli/commands/model/model_file.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/commands/run/secrets.h"
#include "cli/commands/run/sources.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"
#include "datasets/readers/tokenizer_files.h"
#include "node/front/writing.h"
#include "training/learning/data_facts.h"
#include "training/learning/recipe.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/foreign_text.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using datasets::text::AnyTokenizer;
using node::WritingRequest;

constexpr std::uint64_t kTokens = 200;
constexpr std::uint64_t kTokensMost = 1'000'000;
constexpr std::uint32_t kPerRequest = 16;  // tokens that a peer writes before they are shown

struct Wanted {
  WritingRequest request;  // the first one
  std::uint64_t tokens = kTokens;
};

template <class Fits>
Status read_real(const Arguments& arguments, const std::string& flag, const char* what, Fits fits,
                 double& value) {
  const auto text = arguments.get(flag);
  if (!text) return Done{};
  const auto number = parse_number<double>(*text);
  if (!number || !fits(*number)) return Error{flag + ": '" + text->substr(0, 80) + "' is not " + what};
  value = *number;
  return Done{};
}

Result<Wanted> read_wanted(const Arguments& arguments) {
  Wanted wanted;
  WritingRequest& request = wanted.request;
  models::Sampling& sampling = request.sampling;
  request.prompt = arguments.get("--prompt").value_or("");
  if (!is_utf8(request.prompt)) return Error{"--prompt: the text is not valid UTF-8"};
  const auto fits_temperature = [](double t) { return t >= 0 && t <= node::kTemperatureMax; };
  const auto fits_part = [](double p) { return p > 0 && p <= 1; };
  for (const Status& read :
       {read_real(arguments, "--temperature", "a number from 0 to 100", fits_temperature,
                  sampling.temperature),
        read_real(arguments, "--top-p", "a number above 0 and at most 1", fits_part, sampling.top_p),
        read_number(arguments, "--top-k", 1, node::kTopKMax, sampling.top_k),
        read_number<std::uint64_t>(arguments, "--seed", 0, UINT64_MAX, request.seed),
        read_number<std::uint64_t>(arguments, "--tokens", 1, kTokensMost, wanted.tokens)}) {
    if (!read) return read.error();
  }
  return wanted;
}

// Shows the text as it grows, or keeps it for --json.
class Page {
 public:
  Page(const Arguments& arguments, const std::string& prompt) : json_(arguments.has("--json")) {
    if (!json_) add(prompt);
  }

  void add(std::string_view text) {
    text_ += text;
    if (json_) return;
    const std::size_t whole = terminal_ ? text_.size() - training::begun_character(text_) : text_.size();
    const std::string_view next = std::string_view(text_).substr(0, whole);
    const std::string shown = terminal_ ? training::fit_to_show(next, true) : std::string(next);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
    text_.erase(0, whole);
  }
  int end(const std::string& model, const Wanted& wanted) {
    if (!json_) return print_out(training::fit_to_show(text_, true) + "\n");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
    const std::string line = training::to_line(
        {{"model", model},
         {"prompt", wanted.request.prompt},
         {"text", text_},
         {"tokens", wanted.tokens},
         {"seed", wanted.request.seed},
         {"seconds", took.count()},
         {"tokens_per_second", static_cast<double>(wanted.tokens) / std::max(took.count(), 1e-9)}});
    return print_out(terminal_ ? training::fit_to_show(line, true) : line);
  }

 private:
  bool json_;
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::string text_;  // not shown yet
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

// The tokenizer of --tokenizer, or of the file's metadata.
Result<AnyTokenizer> find_tokenizer(const Arguments& arguments, const std::string& path,
                                    const training::Facts& metadata) {
  const auto saved = training::given_by(path, metadata);
  if (!saved) return saved.error();
  const AnyTokenizer& own = saved->tokenizer;
  const auto flag = arguments.get("--tokenizer");
  if (!flag && own == nullptr)
    return Error{path + " does not contain a tokenizer; name the one of its training data with --tokenizer"};
  if (!flag) return own;
  auto loaded = datasets::load_tokenizer(datasets::data_path(*flag, data_root()));
  if (!loaded) return Error{"--tokenizer: " + loaded.error().message};
  if (own != nullptr && own->fingerprint() != (*loaded)->fingerprint())
    return Error{"--tokenizer: " + *flag + " differs from the tokenizer in " + path + "; omit --tokenizer"};
  return loaded;
}

struct SavedWriter {
  models::Plan plan;
  std::vector<float> parameters;
  AnyTokenizer tokenizer;
};

Result<SavedWriter> load_writer(const Arguments& arguments, const std::string& path) {
  const auto model = find_model(arguments, path);
  if (!model) return model.error();
  const int context = models::context_of(*model);
  if (context == 0) return Error{"model \"" + model->name + "\" is not for text, so it cannot write any"};
  const auto metadata = training::read_metadata(path);
  if (!metadata) return metadata.error();
  auto tokenizer = find_tokenizer(arguments, path, *metadata);
  if (!tokenizer) return tokenizer.error();
  const auto vocabulary = static_cast<int>((*tokenizer)->size());
  auto plan = models::make_model(*model, {1, 1, 1, context}, vocabulary);
  if (!plan) return plan.error();
  auto parameters = read_parameters(path, plan->layout);
  if (!parameters) return parameters.error();
  return SavedWriter{std::move(*plan), std::move(*parameters), std::move(*tokenizer)};
}

int write_from_file(const Arguments& arguments, const std::string& path, const Wanted& wanted) {
  const auto saved = load_writer(arguments, path);
  if (!saved) return refuse(arguments, saved.error());
  const auto& tokenizer = *saved->tokenizer;
  auto writer = training::TextWriter::make(saved->plan, saved->parameters, tokenizer, wanted.request.sampling,
                                           wanted.request.seed);
  if (!writer) return refuse(arguments, writer.error());
  auto state = training::begin_text(tokenizer, wanted.request.prompt, saved->plan.spec.input.tokens);
  if (!state) return refuse(arguments, state.error());
  Page page(arguments, wanted.request.prompt);
  for (std::uint64_t token = 0; token < wanted.tokens; ++token) {
    const auto more = writer->write(*state);
    if (!more) return fail(arguments, Error{path + ": " + more.error().message});
    page.add(*more);
  }
  return page.end(saved->plan.spec.name, wanted);
}

int write_at_peer(const Arguments& arguments, const AskedPeer& peer, const Wanted& wanted) {
  const auto token = read_token(arguments);
  if (!token) return refuse(arguments, token.error());
  WritingRequest request = wanted.request;
  std::optional<Page> page;
  for (std::uint64_t written = 0; written < wanted.tokens;) {
    request.tokens =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kPerRequest, wanted.tokens - written));
    const auto body = post(peer, "/api/v1/generate", node::to_json(request), *token);
    if (!body) {
      const std::string so_far =
          written == 0 ? "" : fmt::format("{} of {} tokens are written; ", written, wanted.tokens);
      return fail(arguments, so_far + body.error().message);
    }
    auto answer = node::parse_written(*body);
    if (!answer) return fail(arguments, to_string(peer.at) + ": " + answer.error().message);
    if (!page) page.emplace(arguments, request.prompt);
    page->add(answer->text);
    request.state = std::move(answer->state);
    if (request.state->drawn <= written) return fail(arguments, to_string(peer.at) + " writes no more");
    written = request.state->drawn;
  }
  return page->end(to_string(peer.at), wanted);
}

int generate(Arguments arguments) {
  const bool file = arguments.has("FILE") || arguments.has("--checkpoint");
  for (const char* flag : {"--at", "--token-file"}) {
    if (file && arguments.has(flag))
      return refuse(arguments,
                    std::string(flag) + " cannot be combined with a file: it is for a running peer");
  }
  add_environment(arguments, {token_file_flag()});
  const auto wanted = read_wanted(arguments);
  if (!wanted) return refuse(arguments, wanted.error());
  if (!file) {
    add_environment(arguments, {at_flag()});
    if (!arguments.has("--at"))
      return refuse(arguments,
                    "the model is missing: name FILE, a safetensors file, or a running peer with "
                    "--at");
    for (const char* flag : {"--model", "--tokenizer"}) {
      if (arguments.has(flag))
        return refuse(arguments, std::string(flag) + " cannot be combined with --at: a peer has its own");
    }
    const auto peer = peer_to_ask(arguments);
    if (!peer) return refuse(arguments, peer.error());
    return write_at_peer(arguments, *peer, *wanted);
  }
  const auto path = model_file(arguments);
  if (!path) return refuse(arguments, path.error());
  return write_from_file(arguments, *path, *wanted);
}

}  // namespace

Command generate_command() {
  return {"generate",
          "continue a text with a saved model for text, or with that of a running peer",
          {kModelFile},
          {kCheckpointFlag,
           at_flag(),
           token_file_flag(),
           {"--prompt", "TEXT", "the text to continue (default: a new line)"},
           {"--tokens", "N", "tokens to write (default 200)"},
           {"--temperature", "T", "divides the logits: 0 the likeliest token, 1 (default) as learned"},
           {"--top-k", "K", "draw only from the K likeliest tokens"},
           {"--top-p", "P", "draw only from the likeliest tokens that have the probability P together"},
           {"--seed", "N", "of the draws (default 1): the same seed gives the same text"},
           {"--model", "NAME-OR-FILE", "the network, if the file does not name it"},
           {"--tokenizer", "FILE", "the tokenizer, if the file does not contain it"},
           kJsonFlag},
          generate,
          "starling generate runs/run-1/model.safetensors --prompt ROMEO: --tokens 300\n"
          "starling generate --at 127.0.0.1:7180 --prompt ROMEO:"};
}

}  // namespace starling::cli
