#include "cli/commands/token.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace starling::cli {
namespace {

constexpr std::size_t kShortest = 16, kLongest = 256;

bool fits(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         std::string_view("-_.~+/=").find(c) != std::string_view::npos;
}

}  // namespace

Result<std::string> read_token(const std::string& path) {
  struct stat about {};
  std::ifstream file(path);
  if (::stat(path.c_str(), &about) != 0 || !file) return Error{"cannot read " + path + ": " + std::strerror(errno)};
  if (!S_ISREG(about.st_mode)) return Error{path + " is not a file"};
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error{path + " can be read by others than its owner; chmod 600 makes it a secret"};
  std::string token;
  std::getline(file, token);
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!token.empty() && space(token.back())) token.pop_back();
  token.erase(token.begin(), std::find_if_not(token.begin(), token.end(), space));
  if (token.size() < kShortest || token.size() > kLongest || !std::all_of(token.begin(), token.end(), fits)) {
    return Error{path + " holds no token: its first line must be " + std::to_string(kShortest) + " to " +
                 std::to_string(kLongest) + " letters, digits, or any of -_.~+/="};
  }
  return token;
}

}  // namespace starling::cli
