#include "node/trainers/outbox.h"

#include <string>
#include <vector>

#include "base/text.h"
#include "tests/catch.h"

namespace starling::node {
namespace {

// All that is in the box, as lines.
std::vector<std::string> emptied(Outbox& box) {
  std::string text;
  while (!box.is_empty()) {
    const std::string part = box.take();
    CHECK(part.size() <= Outbox::kBytesMax);
    text += part;
  }
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  REQUIRE(lines.back().empty());
  lines.pop_back();
  return lines;
}

}  // namespace

TEST_CASE("lines for a trainer leave in their order, and whole") {
  Outbox box;
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    expected.push_back("event joined " + std::string(static_cast<std::size_t>(i), 'x'));
    box.push(expected.back());
  }
  CHECK(emptied(box) == expected);
  box.push("say a");
  box.answer({"member 1", "members 1"});
  box.push("say b");
  CHECK(emptied(box) == std::vector<std::string>{"say a", "member 1", "members 1", "say b"});
}

TEST_CASE("a full outbox drops the oldest mixed event, else the oldest line, and counts") {
  Outbox box;
  box.push("event joined first");
  for (std::size_t i = 1; i < Outbox::kLinesMax; ++i) box.push("event mixed " + std::to_string(i));
  box.push("event lost first left");
  box.push("event mixed last");
  auto lines = emptied(box);
  REQUIRE(lines.size() == Outbox::kLinesMax + 1);
  CHECK(lines[0] == "event missed 2");
  CHECK(lines[1] == "event joined first");
  CHECK(lines[2] == "event mixed 3");
  CHECK(lines.back() == "event mixed last");
  for (std::size_t i = 0; i <= Outbox::kLinesMax; ++i) box.push("say " + std::to_string(i));
  lines = emptied(box);
  CHECK(lines.front() == "event missed 1");
  CHECK(lines[1] == "say 1");
}

TEST_CASE("answers do not count among the lines that wait, and at most two wait") {
  Outbox box;
  const std::vector<std::string> long_answer(1000, "member x");
  box.answer(long_answer);
  box.answer({"event members 0"});
  box.answer({"members 0"});  // the third
  for (std::size_t i = 0; i < Outbox::kLinesMax; ++i) box.push("event mixed x");
  const auto lines = emptied(box);
  CHECK(lines.size() == 1001 + Outbox::kLinesMax);
  CHECK(lines[1000] == "event members 0");
  box.answer({"members 0"});
  CHECK(emptied(box) == std::vector<std::string>{"members 0"});
}

}  // namespace starling::node
