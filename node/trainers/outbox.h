// The lines that wait for a trainer that reads late: events, what the peer says, and answers, in their order.
// Their number is bounded: a trainer that reads nothing for hours costs no more memory, and keeps its
// connection. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace starling::node {

class Outbox {
 public:
  static constexpr std::size_t kLinesMax = 256;  // without answers
  static constexpr std::size_t kAnswersMax = 2;
  static constexpr std::size_t kBytesMax = 8192;  // of take()

  // Into a full box the line comes in place of the oldest `event mixed`, or else of the oldest line; an
  // `event missed NUMBER` counts those that were dropped since the last one.
  void push(std::string line);
  // Dropped while kAnswersMax others wait.
  void answer(std::vector<std::string> lines);

  bool is_empty() const { return lines_.empty(); }
  // The oldest lines with their ends, as many as kBytesMax has room for, at least one. REQUIRES: !is_empty().
  std::string take();

 private:
  struct Line {
    std::string text;
    bool is_answer = false, ends_answer = false;
  };
  void drop_one();

  std::deque<Line> lines_;
  std::size_t news_ = 0;     // lines that are no part of an answer
  std::size_t answers_ = 0;  // that are not sent whole
  std::uint64_t missed_ = 0;
};

}  // namespace starling::node
