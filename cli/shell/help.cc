#include "cli/shell/help.h"

#include <algorithm>

namespace starling::cli {
namespace {

constexpr std::size_t kWidestTerm = 32;
constexpr std::size_t kFlagsOfAScreen = 16;  // a command with more flags has a short help

struct Row {
  std::string term, help;  // "--peers N", and what that means
};

Row row_of(const Flag& flag) {
  return {flag.placeholder.empty() ? flag.name : flag.name + " " + flag.placeholder, help_of(flag)};
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

// A help text that does not fit into a line, up to its first semicolon outside of parentheses.
std::string shortened(const std::string& help, std::size_t room) {
  if (help.size() <= room) return help;
  int depth = 0;
  for (std::size_t i = 0; i < help.size(); ++i) {
    depth += help[i] == '(' ? 1 : help[i] == ')' ? -1 : 0;
    if (help[i] == ';' && depth == 0) return help.substr(0, i);
  }
  return help;
}

std::string examples_of(const Command& command) {
  if (command.example.empty()) return "";
  std::string text = "\nExample:\n  ";
  for (const char c : command.example) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return text + "\n";
}

}  // namespace

std::string help_of(const Flag& flag) {
  return flag.help + (flag.repeatable ? " (repeatable)" : flag.required ? " (required)" : "");
}

std::string usage_of(const Command& command) {
  std::string usage = "starling " + command.path;
  for (const Positional& positional : command.positionals) {
    const std::string name = positional.name + (positional.repeatable ? "..." : "");
    usage += positional.required ? " " + name : " [" + name + "]";
  }
  return std::ranges::all_of(command.flags, &Flag::hidden) ? usage : usage + " [FLAG...]";
}

std::string help_text(const Command& command, bool all) {
  std::vector<Flag> flags = command.flags;
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  const std::size_t listed = flags.size();
  const bool brief = !all && listed > kFlagsOfAScreen;
  if (brief) std::erase_if(flags, [](const Flag& flag) { return !flag.common; });
  if (all) flags = visible_flags(command);
  std::vector<Row> positionals;
  for (const Positional& positional : command.positionals)
    positionals.push_back({positional.name, positional.help});

  // The sections in the order of their first flags.
  std::vector<std::pair<std::string, std::vector<Row>>> sections;
  std::size_t width = term_width(positionals);
  for (const Flag& flag : flags) {
    auto at = std::ranges::find(sections, flag.section, [](const auto& section) { return section.first; });
    if (at == sections.end()) at = sections.insert(at, {flag.section, {}});
    at->second.push_back(row_of(flag));
    width = term_width(at->second, width);
  }

  std::string text =
      wrapped("starling " + command.path + ": " + command.summary, 0) + "\n\nusage: " + usage_of(command);
  if (brief) text += "; all " + std::to_string(listed) + " flags: starling " + command.path + " --help all";
  text += "\n" + table(positionals, width);
  bool first = true;
  for (auto& [title, rows] : sections) {
    if (title.empty()) {
      if (first && positionals.empty() && !brief) text += "\n";
    } else {
      text += (brief && !first ? "" : "\n") + title + "\n";
    }
    first = false;
    if (brief)
      for (Row& row : rows) row.help = shortened(row.help, kHelpColumns - width - 4);
    text += table(rows, width);
  }
  if (all && std::ranges::any_of(command.flags, [](const Flag& flag) { return !flag.key.empty(); })) {
    text += "\n" +
            wrapped(
                "If a flag is not given, its environment variable is used (--batch-size: "
                "STARLING_BATCH_SIZE, --data: STARLING_DATA_SOURCE); if that is not set, the experiment "
                "file.",
                0) +
            "\n";
  }
  return text + examples_of(command);
}

std::string help_text(const std::vector<Command>& commands, const std::string& group) {
  std::vector<Row> rows;
  for (const Command& command : commands) {
    if (!command.hidden && (group.empty() || command.path.starts_with(group + " ")))
      rows.push_back({command.path, command.summary});
  }
  std::string common = "Flags of every command: --help";
  for (const Flag& flag : shared_flags()) common += ", " + row_of(flag).term;
  if (group.empty()) common += ". Also: starling --version";
  const std::size_t width = term_width(rows);

  std::string text = "usage: starling " + group + " COMMAND [FLAG...]\n";
  if (group.empty()) {
    text =
        "starling: trains one neural network on many peers by gossip: no master, no barrier\n"
        "usage: starling COMMAND [FLAG...], such as starling swarm --peers 4 --model lenet --data glyphs\n";
  }
  return text + table(rows, width) + "\n" + wrapped(common, 0) + "\n";
}

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

}  // namespace starling::cli
