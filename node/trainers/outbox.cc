#include "node/trainers/outbox.h"

#include <algorithm>
#include <utility>

namespace starling::node {

void Outbox::push(std::string line) {
  if (news_ >= kLinesMax) drop_one();
  lines_.push_back({.text = std::move(line)});
  ++news_;
}

void Outbox::drop_one() {
  auto oldest =
      std::ranges::find_if(lines_, [](const Line& line) { return line.text.starts_with("event mixed "); });
  if (oldest == lines_.end())
    oldest = std::ranges::find_if(lines_, [](const Line& line) { return !line.is_answer; });
  lines_.erase(oldest);
  --news_;
  ++missed_;
}

void Outbox::answer(std::vector<std::string> lines) {
  if (answers_ >= kAnswersMax || lines.empty()) return;
  ++answers_;
  for (std::string& line : lines) lines_.push_back({.text = std::move(line), .is_answer = true});
  lines_.back().ends_answer = true;
}

std::string Outbox::take() {
  std::string text;
  if (missed_ > 0) text = "event missed " + std::to_string(std::exchange(missed_, 0)) + "\n";
  do {
    const Line& oldest = lines_.front();
    text += oldest.text + "\n";
    if (oldest.ends_answer) --answers_;
    if (!oldest.is_answer) --news_;
    lines_.pop_front();
  } while (!lines_.empty() && text.size() + lines_.front().text.size() < kBytesMax);
  return text;
}

}  // namespace starling::node
