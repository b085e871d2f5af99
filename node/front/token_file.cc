#include "node/front/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

namespace starling::node {
namespace {

bool is_token_character(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         std::string_view("-_.~+/=").find(c) != std::string_view::npos;
}

}  // namespace

Result<std::string> read_command_token(const std::string& path) {
  constexpr std::size_t kShortest = 16, kLongest = 256;
  struct stat about {};
  std::ifstream file(path);
  if (::stat(path.c_str(), &about) != 0 || !file)
    return Error{"cannot read " + path + ": " + std::strerror(errno)};
  if (!S_ISREG(about.st_mode)) return Error{path + " is not a file"};
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error{path + " can be read by other users; make it private with chmod 600"};
  std::string token;
  std::getline(file, token);
  token.erase(token.find_last_not_of(" \t\r") + 1);
  token.erase(0, token.find_first_not_of(" \t\r"));
  if (token.size() < kShortest || token.size() > kLongest ||
      !std::ranges::all_of(token, is_token_character)) {
    return Error{path + " holds no token: its first line must be " + std::to_string(kShortest) + " to " +
                 std::to_string(kLongest) + " letters, digits, or any of -_.~+/="};
  }
  return token;
}

}  // namespace starling::node
