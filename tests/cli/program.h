// Runs the program and collects its output. Its environment has only the given STARLING_ variables, and
// STARLING_EXPORT=none unless another value is given; an empty one leaves it unset.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/contains.h"
#include "tests/waiting.h"

namespace starling::cli_tests {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

struct Outcome {
  int exit_code = -1;  // -1: killed by a signal
  std::string out, err;
};

// The running program.
class Program {
 public:
  // `folder`: where it runs; empty: in the folder of the tests.
  explicit Program(const Words& arguments, const Environment& environment = {},
                   const std::string& folder = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Reads until standard error contains `text` this often; false if the program ends before, or prints
  // nothing for kHang.
  bool wait_for_error_text(const std::string& text, std::size_t times = 1);
  // Reads until standard error contains `text` and the rest of its line, and returns the first word after
  // `text`; empty in the same cases.
  std::string wait_for_error_word(const std::string& text);
  void signal(int number);
  Outcome finish();
  // The same if the program ends within this time, by Beats; otherwise nothing.
  std::optional<Outcome> finish_within(std::chrono::milliseconds limit);
  // Fills the pipe of standard error, as a reader that has stopped reading leaves it; or closes its reading
  // end.
  void clog_errors();
  void close_errors();
  // Whether the program ends within this time, by Beats, although nobody reads.
  bool ends_unread_within(std::chrono::milliseconds limit);
  const std::string& error_text() const { return outcome_.err; }  // so far

 private:
  // Waits for output; false if both streams have ended, or without any for this long.
  bool read_some(std::chrono::milliseconds limit = kHang);
  bool has_closed() const { return out_ < 0 && err_ < 0; }

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  Outcome outcome_;
};

// The time, by Beats, after which a second Ctrl-C ends a program at once (node/launch/process.h).
inline constexpr std::chrono::milliseconds kSecondCtrlC{1100};

// Kills the program and waits for its end.
void kill_at_once(Program& program);

Outcome run(const Words& arguments, const Environment& environment = {}, const std::string& folder = "");

// Whether `text` is one line, with its newline.
bool is_one_line(const std::string& text);

// A folder that is deleted with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

std::string read_whole(const std::string& path);

}  // namespace starling::cli_tests
