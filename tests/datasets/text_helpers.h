// Texts, tokenizers and files of tokens for tests.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "datasets/text/tokenizer.h"
#include "tests/datasets/files.h"

namespace starling::datasets {

using Tokens = std::vector<std::uint16_t>;

inline FileBytes bytes_in(std::string_view text) { return FileBytes(text.begin(), text.end()); }

inline std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// A random text of words, spaces, line breaks, numbers, signs and letters beyond ASCII.
inline std::string random_text(Random& random, std::size_t pieces) {
  constexpr std::array<std::string_view, 24> kPieces = {
      "the", "then", "an", "in", " ",  "  ", "\n", "\t", "'s", "'ll", "'",  "1",
      "42",  ".",    "!?", "é",  "ß1", "你", "好", "½",  "😀",  "_",   "ab", "\xc2\xa0"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[random.below(kPieces.size())];
  return text;
}

inline std::string random_bytes(Random& random, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(random.below(256)));
  return bytes;
}

// Little-endian, as in the files.
inline FileBytes token_bytes(const Tokens& tokens) {
  FileBytes bytes;
  for (const std::uint16_t token : tokens) {
    bytes.push_back(static_cast<std::uint8_t>(token & 0xff));
    bytes.push_back(static_cast<std::uint8_t>(token >> 8));
  }
  return bytes;
}

// The header of llm.c.
inline FileBytes token_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  FileBytes bytes;
  for (std::uint32_t i = 0; i < 256; ++i) {
    const std::uint32_t value = i == 0 ? magic : i == 1 ? version : i == 2 ? count : 0;
    for (const int shift : {0, 8, 16, 24}) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
  return bytes;
}

// UTF-8 of a code point below U+0800, which is enough for GPT-2's table.
inline std::string small_utf8(unsigned code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// GPT-2's first tokens: its 256 characters in their order, then `more`, numbered on; as vocab.json.
inline std::string gpt2_vocabulary(const std::vector<std::string>& more) {
  std::vector<std::string> texts;
  for (const auto& [first, last] : std::initializer_list<std::pair<unsigned, unsigned>>{
           {'!', '~'}, {0xa1, 0xac}, {0xae, 0xff}, {0x100, 0x143}}) {
    for (unsigned code = first; code <= last; ++code) texts.push_back(small_utf8(code));
  }
  texts.insert(texts.end(), more.begin(), more.end());
  std::string json = "{";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string text;
    for (const char c : texts[i]) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    json += (i > 0 ? ", \"" : "\"") + text + "\": " + std::to_string(i);
  }
  return json + "}";
}

// The first seven merges of GPT-2, whose results are its tokens 256 to 262.
inline const std::string kGpt2Merges = "#version: 0.2\nĠ t\nĠ a\nh e\ni n\nr e\no n\nĠt he\n";
inline const std::vector<std::string> kGpt2Results = {"Ġt", "Ġa", "he", "in", "re", "on", "Ġthe"};

}  // namespace starling::datasets
