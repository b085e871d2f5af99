// Reads texts that are tokens already, plain or gzipped: little-endian numbers of 16 or 32 bits, as nanoGPT
// (without a header) and llm.c (with one, text/token_header.h) write them.
//
//   FILE.bin               the first nine tenths of its tokens are for training
//   train.bin and val.bin  a folder's two parts; with a tokenizer beside them also train.bin and test.bin,
//                          which without one are CIFAR-100's (cifar.h)
//
// The vocabulary belongs to the tokenizer that the option ":tokens=" names ("bytes", or a path), else to the
// one beside the file (tokenizer_files.h), else the one that is given, else it has the size that nanoGPT's
// meta.pkl beside the file states, else GPT-2's 50,257 tokens; the latter two are without their text. A given
// tokenizer must equal those that are named or beside the file.
//
// The width of the numbers is what the header says, else what ":width=16" or ":width=32" says, else 16 bits
// if nothing suggests another one (token_width.h), which is a decision; otherwise the file is refused. The
// Error of a malformed file names the file, the offset in bytes, what is wrong and what would be right.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/path_options.h"

namespace starling::datasets {

inline constexpr int kGpt2Vocabulary = 50'257;

Result<DataPair> read_token_file(const std::string& path, const PathOptions& options = {},
                                 const Given& given = {});
Result<DataPair> read_token_folder(const std::string& folder, const PathOptions& options = {},
                                   const Given& given = {});

bool is_token_path(std::string_view path);  // whether it ends in .bin or .bin.gz, also in capitals
bool is_token_folder(const std::string& folder);

}  // namespace starling::datasets
