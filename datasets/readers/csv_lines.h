// The lines of a CSV file, one after the other. Used by csv.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "datasets/readers/byte_source.h"

namespace starling::datasets {

// A file's lines one after the other, in a buffer that grows to the longest line.
class CsvLines {
 public:
  static Result<CsvLines> open(const std::string& path) {
    auto source = ByteSource::open(path);
    if (!source) return source.error();
    CsvLines lines(std::move(*source), "'" + path + "'");
    if (const auto filled = lines.fill(); !filled) return filled.error();
    const std::string_view start = lines.rest();
    if (start.starts_with("\xef\xbb\xbf")) lines.at_ += 3;
    if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff"))
      return Error{lines.file_ + " is text in UTF-16; save it as UTF-8 or plain ASCII"};
    if (start.find('\n') == std::string_view::npos && !start.empty() && start.find('\r') < start.size() - 1)
      return Error{lines.file_ +
                   " ends its lines with carriage returns only; write line feeds, for example with "
                   "tr '\\r' '\\n'"};
    return lines;
  }

  // The next line without its end, valid until the next call; nullopt after the last line. A `header` may
  // have line breaks within quotes.
  Result<std::optional<std::string_view>> next(bool header = false) {
    number_ += breaks_;
    breaks_ = 0;
    std::size_t length = 0;
    bool quoted = false;
    for (;;) {
      const std::string_view rest = this->rest();
      const std::size_t found = header ? find_end(rest, length, quoted) : rest.find('\n', length);
      length = std::min(found, rest.size());
      if (length > kBytesMax)
        return Error{file_ + ", line " + std::to_string(number_) + ": it is longer than the " +
                     std::to_string(kBytesMax >> 20) + " MiB that are accepted" +
                     (quoted ? ", perhaps because a quote is not closed" : "")};
      if (found != std::string_view::npos) {
        std::string_view line = rest.substr(0, found);
        breaks_ = header ? 1 + static_cast<std::size_t>(std::count(line.begin(), line.end(), '\n')) : 1;
        at_ += found + 1;
        return std::optional(without_return(line));
      }
      if (ended_) {
        if (rest.empty()) return std::optional<std::string_view>();
        breaks_ = 1;
        at_ = end_;
        return std::optional(without_return(rest));
      }
      if (const auto filled = fill(); !filled) return filled.error();
    }
  }

  // The number, from 1, of the line that next() returned; a header counts by its first line.
  std::size_t number() const { return number_; }
  std::uint64_t consumed() const { return read_ - (end_ - at_); }  // bytes
  // The file's length in bytes; nullopt if it is gzipped.
  std::optional<std::uint64_t> length() const {
    return source_.gzipped() ? std::nullopt : std::optional(source_.most_bytes());
  }

 private:
  static constexpr std::size_t kPiece = 1 << 20;
  static constexpr std::size_t kBytesMax = std::size_t{1} << 24;  // of a line

  CsvLines(ByteSource source, std::string file) : source_(std::move(source)), file_(std::move(file)) {}

  std::string_view rest() const { return {buffer_.data() + at_, end_ - at_}; }

  static std::string_view without_return(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  // The first line break at or after `begin` that is not within quotes.
  static std::size_t find_end(std::string_view text, std::size_t begin, bool& quoted) {
    for (std::size_t i = begin; i < text.size(); ++i) {
      if (text[i] == '"') quoted = !quoted;
      if (text[i] == '\n' && !quoted) return i;
    }
    return std::string_view::npos;
  }

  // Appends another piece to the buffer.
  Status fill() {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    end_ -= at_;
    at_ = 0;
    if (buffer_.size() < end_ + kPiece) buffer_.resize(std::max(2 * buffer_.size(), end_ + kPiece));
    const std::size_t room = buffer_.size() - end_;
    const auto got = source_.read({reinterpret_cast<std::uint8_t*>(buffer_.data()) + end_, room});
    if (!got) return got.error();
    end_ += *got;
    read_ += *got;
    ended_ = *got < room;
    return Done{};
  }

  ByteSource source_;
  std::string file_;  // in quotes
  std::vector<char> buffer_ = std::vector<char>(kPiece);
  std::size_t at_ = 0, end_ = 0;         // the part of the buffer that next() has not returned yet
  std::size_t number_ = 1, breaks_ = 0;  // breaks: in and after the line that next() returned
  std::uint64_t read_ = 0;
  bool ended_ = false;
};

}  // namespace starling::datasets
