#include "base/program.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace starling {
namespace {

std::string_view variable_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

bool can_redraw(int descriptor) { return ::isatty(descriptor) == 1 && variable_text("TERM") != "dumb"; }

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool shows_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(variable_text(name));
    if (locale.empty()) continue;
    std::erase(locale, '-');
    std::ranges::transform(locale, locale.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return locale.find("utf8") != std::string::npos;
  }
  return true;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  if (columns == 0) return std::string(text);
  std::string cut;
  std::size_t at = 0;  // characters in the line
  for (const char byte : text) {
    if (byte == '\n') {
      at = 0;
      cut += byte;
      continue;
    }
    at += begins_character(byte) ? 1 : 0;
    if (at <= columns) cut += byte;
  }
  return cut;
}

}  // namespace starling
