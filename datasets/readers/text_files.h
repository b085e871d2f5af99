// Reads texts for language models, plain or gzipped: files of UTF-8 with the ending .txt or .text. The option
// ":tokens=" after the path selects the tokenizer: "characters" (the default; the vocabulary has the
// characters of both parts), "bytes", or the path of a tokenizer (tokenizer_files.h). Special tokens in a
// text, as <|endoftext|>, become these tokens, which is a decision, or with ":special=text" ordinary text.
//
//   FILE.txt                                     the first nine tenths of its characters are for training
//   train.txt and test.txt, valid.txt or val.txt the two parts, from the first of the latter that exists
//   wiki.train.tokens and wiki.test.tokens or    WikiText (Merity et al., "Pointer sentinel mixture models",
//   wiki.valid.tokens; or with .raw              2016): each article is a document
//   other files in a folder                      documents, in the order of their names. Of ten or more the
//                                                first nine tenths are for training, of fewer the first nine
//                                                tenths of all characters
//
// Documents follow one another without a separating token. The Error of a malformed file names the file, the
// offset in bytes, what is wrong and what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/path_options.h"

namespace starling::datasets {

inline constexpr std::uint64_t kTextBytesMax = UINT32_MAX;  // of both parts

struct Document {
  std::string path;          // of its file
  std::uint64_t offset = 0;  // in bytes, where it begins there
  std::string text;
};

// The two parts of a text.
struct Documents {
  std::vector<Document> train, test;
  std::vector<std::string> files = {};  // of both, also of one that is not needed
};

// Reads a file or a folder as above; with `only_test` of a folder with the files of two parts only the
// latter.
Result<Documents> read_documents(const std::string& path, bool only_test = false);

// The same as tokens. `given.tokenizer`: the one to use instead of the one that the option names.
Result<DataPair> read_texts(const std::string& path, const PathOptions& options = {},
                            const Given& given = {});

// Whether the path ends in .txt or .text, in letters of either case, with or without a further .gz, and does
// not name a tokenizer.
bool is_text_path(std::string_view path);

// Whether the folder contains such a file, or one of WikiText.
bool is_text_folder(const std::string& folder);

}  // namespace starling::datasets
