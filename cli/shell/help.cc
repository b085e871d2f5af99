#include "cli/shell/help.h"

#include <algorithm>

namespace starling::cli {
namespace {

constexpr std::size_t kWidestTerm = 32;
constexpr std::size_t kFlagsOfAScreen = 16;  // so many are no list to be shortened

// A line of a table: what is typed, and what it means.
struct Row {
  std::string term, help;
};

std::string term_of(const Flag& flag) {
  return flag.placeholder.empty() ? flag.name : flag.name + " " + flag.placeholder;
}

std::string help_of(const Flag& flag) {
  return flag.help + (flag.repeatable ? " (repeatable)" : "");
}

std::size_t term_width(const std::vector<Row>& rows, std::size_t width = 0) {
  for (const Row& row : rows)
    if (row.term.size() <= kWidestTerm) width = std::max(width, row.term.size());
  return width;
}

std::string table(const std::vector<Row>& rows, std::size_t width) {
  std::string text;
  const std::size_t column = 2 + width + 2;
  for (const Row& row : rows) {
    text += "  " + row.term;
    if (row.term.size() > width) {
      text += "\n" + std::string(column, ' ');
    } else {
      text += std::string(width - row.term.size() + 2, ' ');
    }
    text += wrapped(row.help, column) + "\n";
  }
  return text;
}

// What a help says first, where all of it does not fit a line: up to its first semicolon outside of brackets,
// or as many words as there is room for.
std::string one_line(const std::string& help, std::size_t room) {
  if (help.size() <= room) return help;
  int depth = 0;
  for (std::size_t i = 0; i < help.size(); ++i) {
    depth += help[i] == '(' ? 1 : help[i] == ')' ? -1 : 0;
    if (help[i] == ';' && depth == 0) return one_line(help.substr(0, i), room);
  }
  return help.substr(0, help.rfind(' ', room - 3)) + "...";
}

std::string examples_of(const Command& command) {
  if (command.example.empty()) return "";
  std::string text = "\nExample:\n  ";
  for (const char c : command.example) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return text + "\n";
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t column) {
  std::string lines;
  std::size_t at = column, begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (at > column && at + 1 + length > kHelpColumns) {
      lines += "\n" + std::string(column, ' ');
      at = column;
    }
    if (at > column) {
      lines += ' ';
      ++at;
    }
    lines += text.substr(begin, length);
    at += length;
    begin = end + 1;
  }
  return lines;
}

std::string usage_of(const Command& command) {
  std::string usage;
  for (const Positional& positional : command.positionals) {
    const std::string name = positional.name + (positional.repeatable ? "..." : "");
    usage += positional.required ? " " + name : " [" + name + "]";
  }
  if (std::any_of(command.flags.begin(), command.flags.end(), [](const Flag& flag) { return !flag.hidden; }))
    usage += " [FLAG...]";
  return usage.empty() ? usage : usage.substr(1);
}

bool has_more_flags(const Command& command) {
  const auto shown = std::count_if(command.flags.begin(), command.flags.end(),
                                   [](const Flag& flag) { return !flag.hidden; });
  return static_cast<std::size_t>(shown) > kFlagsOfAScreen;
}

std::string help_text(const Command& command, const std::vector<Flag>& shared, bool all) {
  const bool brief = !all && has_more_flags(command);
  std::vector<Row> positionals;
  for (const Positional& positional : command.positionals)
    positionals.push_back({positional.name, positional.help});

  // The sections in the order in which they first occur.
  std::vector<std::pair<std::string, std::vector<Row>>> sections;
  std::size_t width = term_width(positionals), listed = 0;
  const auto add = [&](const Flag& flag, const std::string& title) {
    auto at = std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.first == title; });
    if (at == sections.end()) at = sections.insert(sections.end(), {title, {}});
    at->second.push_back({term_of(flag), help_of(flag)});
    width = term_width(at->second, width);
  };
  for (const Flag& flag : command.flags) {
    if (flag.hidden) continue;
    ++listed;
    if (!brief || flag.common) add(flag, flag.section);
  }
  if (all)
    for (const Flag& flag : shared) add(flag, flag.section);

  std::string text =
      wrapped("starling " + command.path + ": " + command.summary, 0) + "\n\nusage: starling " + command.path;
  if (const std::string usage = usage_of(command); !usage.empty()) text += " " + usage;
  text += "\n" + table(positionals, width);
  bool first = true;
  for (auto& [title, rows] : sections) {
    if (!title.empty()) {
      text += (brief && !first ? "" : "\n") + title + "\n";
    } else {
      text += first && positionals.empty() && !brief ? "\n" : "";
    }
    first = false;
    if (brief)
      for (Row& row : rows) row.help = one_line(row.help, kHelpColumns - width - 4);
    text += table(rows, width);
  }
  const auto has_key = [](const Flag& flag) { return !flag.key.empty(); };
  if (all && std::any_of(command.flags.begin(), command.flags.end(), has_key)) {
    text += "\n" + wrapped("Where no flag says it, a variable of the environment does (--batch-size: STARLING_BATCH_SIZE; --data: "
                           "STARLING_DATA_SOURCE), and where none does, the experiment's file.", 0) + "\n";
  }
  if (brief) text += "\nAll " + std::to_string(listed) + " flags: starling " + command.path + " --help all\n";
  return text + examples_of(command);
}

std::string help_text(const std::vector<Command>& commands, const std::string& group,
                      const std::vector<Flag>& shared) {
  std::vector<Row> rows;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    if (group.empty() || command.path.starts_with(group + " "))
      rows.push_back({command.path, command.summary});
  }
  std::vector<Row> flags = {{"--help", "of a command: what it takes, with an example"}};
  if (group.empty()) flags.push_back({"--version", "which version this is"});
  for (const Flag& flag : shared) flags.push_back({term_of(flag), help_of(flag)});
  const std::size_t width = term_width(flags, term_width(rows));

  std::string text;
  if (group.empty()) {
    text = "starling: trains one neural network on many peers that gossip: no master, no barrier\n\n";
    text += "usage: starling COMMAND [FLAG...]\n";
    text += "       starling swarm --peers 4 --model lenet --data glyphs --epochs 3\n";
  } else {
    text = "usage: starling " + group + " COMMAND [FLAG...]\n";
  }
  text += table(rows, width) + "\nEvery command takes\n" + table(flags, width);
  return text;
}

}  // namespace starling::cli
