// starling tokenizer train, show: tokenizers of texts.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/run/experiment_flags.h"
#include "cli/shell/output.h"
#include "datasets/catalogue.h"
#include "datasets/readers/text_files.h"
#include "datasets/readers/tokenizer_files.h"
#include "datasets/readers/unread.h"
#include "datasets/text/bpe_training.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using datasets::text::AnyTokenizer;
using datasets::text::kTokensMax;
using training::Json;

constexpr std::size_t kSizeLeast = 257;  // the bytes and one pair

// Bytes of text per token, for a text from which the tokenizer was not learned.
Result<double> bytes_per_token(const datasets::text::Tokenizer& tokenizer,
                               const std::vector<datasets::Document>& documents) {
  std::size_t bytes = 0, tokens = 0;
  for (const datasets::Document& document : documents) {
    const auto encoded = tokenizer.encode(document.text);
    if (!encoded) return encoded.error();
    bytes += document.text.size();
    tokens += encoded->size();
  }
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(1, tokens));
}

int train_tokenizer(const Arguments& arguments) {
  datasets::text::BpeTraining training;
  if (Status read = read_number(arguments, "--size", kSizeLeast, kTokensMax, training.size); !read)
    return refuse(arguments, read.error());
  const std::string out = *arguments.get("--out");
  if (Status sound = training::check_target(out); !sound)
    return refuse(arguments, "--out: " + sound.error().message);
  const std::string path = datasets::data_path(*arguments.get("TEXT"), data_root());
  const auto documents = datasets::read_documents(path);
  if (!documents) return refuse(arguments, documents.error());
  if (Status other = training::check_target(out); !other)
    return refuse(arguments, "--out: " + other.error().message);
  warn(datasets::unread_in(path, documents->files));
  std::vector<std::string_view> views;
  for (const datasets::Document& document : documents->train) views.emplace_back(document.text);
  ProgressLine progress;
  training.progress = [&progress](std::size_t merges, std::size_t of) {
    progress.show(fmt::format("{} of {} pairs joined", merges, of));
  };
  const Result<AnyTokenizer> tokenizer = datasets::text::train_bpe(views, training);
  progress.clear();
  if (!tokenizer) return fail(arguments, tokenizer.error());
  const std::size_t size = (*tokenizer)->size();
  if (size < training.size)
    warn(fmt::format(
        "the vocabulary has {} tokens instead of {}, because no other pair occurs twice in the text", size,
        training.size));
  if (Status written = training::write_text(out, (*tokenizer)->text()); !written)
    return fail(arguments, written.error());
  const auto ratio = bytes_per_token(**tokenizer, documents->test);
  if (!ratio) return fail(arguments, ratio.error());
  if (arguments.has("--json"))
    return print_out(training::to_line({{"file", out}, {"tokens", size}, {"bytes_per_token", *ratio}}));
  return print_out(
      fmt::format("{}: {} tokens; a token of the test text has {:.2f} bytes\n", out, size, *ratio));
}

// In quotes, with escapes for what cannot be printed.
std::string in_quotes(std::string_view bytes) {
  std::string text = "\"";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    const bool sound = next_character(bytes, at).has_value();
    if (!sound) at = begin + 1;
    const std::string_view character = bytes.substr(begin, at - begin);
    if (character == "\"" || character == "\\") text += '\\';
    if (character == "\n") {
      text += "\\n";
    } else if (is_printable(character)) {
      text += character;
    } else {
      for (const char c : character) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text + "\"";
}

std::string listed(const datasets::text::Tokenizer& tokenizer, const std::vector<std::uint16_t>& tokens) {
  std::string text;
  for (const std::uint16_t token : tokens)
    text += fmt::format("{:>7}  {}\n", token, in_quotes(tokenizer.decode_one(token)));
  return text;
}

int show_tokenizer(const Arguments& arguments) {
  const std::string path = *arguments.get("TOKENIZER");
  const Result<AnyTokenizer> loaded = datasets::load_tokenizer(datasets::data_path(path, data_root()));
  if (!loaded) return refuse(arguments, loaded.error());
  const datasets::text::Tokenizer& tokenizer = **loaded;
  std::vector<std::uint16_t> encoded;
  if (const auto text = arguments.get("--text")) {
    auto tokens = tokenizer.encode(*text);
    if (!tokens) return refuse(arguments, "--text: " + tokens.error().message);
    encoded = std::move(*tokens);
  }
  const std::string fingerprint = fmt::format("{:016x}", tokenizer.fingerprint());
  if (arguments.has("--json")) {
    Json object = {
        {"kind", std::string(tokenizer.kind())}, {"tokens", tokenizer.size()}, {"fingerprint", fingerprint}};
    if (arguments.has("--text")) object["text"] = encoded;
    return print_out(training::to_line(object));
  }
  std::string text = fmt::format("{}: {}, {} tokens, fingerprint {}\n", path, tokenizer.kind(),
                                 tokenizer.size(), fingerprint);
  if (arguments.has("--text")) {
    text += fmt::format("\n{} tokens of the text:\n", encoded.size()) + listed(tokenizer, encoded);
  } else {
    constexpr std::size_t kShown = 12;
    std::vector<std::uint16_t> last;
    for (std::size_t token = tokenizer.size() - std::min(kShown, tokenizer.size()); token < tokenizer.size();
         ++token)
      last.push_back(static_cast<std::uint16_t>(token));
    text += "\nthe last tokens:\n" + listed(tokenizer, last);
  }
  return print_out(text);
}

}  // namespace

std::vector<Command> tokenizer_commands() {
  return {{"tokenizer train",
           "learn a byte-pair encoding from a text",
           {{"TEXT", "a text of `data list`, or a file or folder; its training part is used"}},
           {{.name = "--size",
             .placeholder = "N",
             .help = fmt::format("tokens of the vocabulary, {} to {}", kSizeLeast, kTokensMax),
             .required = true},
            {.name = "--out", .placeholder = "FILE", .help = "the file to write", .required = true},
            kJsonFlag},
           train_tokenizer,
           "starling tokenizer train book.txt --size 1024 --out tokenizer.txt"},
          {"tokenizer show",
           "describe a tokenizer, or show the tokens of a text",
           {{"TOKENIZER", "a file of `tokenizer train`, or a folder with vocab.json and merges.txt"}},
           {{"--text", "TEXT", "the text whose tokens to show"}, kJsonFlag},
           show_tokenizer,
           "starling tokenizer show tokenizer.txt --text Hello"}};
}

}  // namespace starling::cli
