// Runs the real program and keeps what it said. Its environment has no STARLING_ variables but those given.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace starling::cli_tests {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

struct Outcome {
  int exit_code = -1;  // -1: killed by a signal
  std::string out, err;
};

// The program while it runs.
class Program {
 public:
  explicit Program(const Words& arguments, const Environment& environment = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Reads until standard error holds `text` so many times; false where the program ended before.
  bool wait_for_error_text(const std::string& text, std::size_t times = 1);
  // Reads until standard error holds `text` with a whole line behind it, and returns the first word of that;
  // empty where the program ended before.
  std::string wait_for_error_word(const std::string& text);
  void signal(int number);
  Outcome finish();
  // The same, where the program ends within this time; nothing where it does not.
  std::optional<Outcome> finish_within(std::chrono::milliseconds limit);
  const std::string& error_text() const { return outcome_.err; }  // so far

 private:
  bool read_some(int limit_milliseconds = -1);  // false at the end of both streams

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  Outcome outcome_;
};

Outcome run(const Words& arguments, const Environment& environment = {});

// Whether `text` is one line, with its newline.
bool is_one_line(const std::string& text);

// A folder that goes with the value.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

std::string read_whole(const std::string& path);

}  // namespace starling::cli_tests
