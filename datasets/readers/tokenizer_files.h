// Tokenizers in files: tokenizer.txt as `starling tokenizer train` writes it, or GPT-2's vocab.json and
// merges.txt in a folder, there also added_tokens.json and tokenizer.json; plain or gzipped.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/text/tokenizer.h"

namespace starling::datasets {

// `path`: a file in the text form of tokenizers, or a folder with tokenizer.txt or, if it has none, with
// vocab.json and merges.txt. The Error names the file.
Result<text::AnyTokenizer> load_tokenizer(const std::string& path);

// The files that load_tokenizer() reads for this path; empty if the folder has none.
std::vector<std::string> tokenizer_files(const std::string& path);

// Whether the folder has tokenizer.txt or vocab.json.
bool has_tokenizer(const std::string& folder);

// Whether a file of this name belongs to a tokenizer, so that it is no text to learn.
bool is_tokenizer_file(const std::string& path);

}  // namespace starling::datasets
