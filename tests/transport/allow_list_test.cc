// The file of --allow.
#include "transport/trust/allow_list.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::transport {
namespace {

struct AllowFile {
  explicit AllowFile(const std::string& text) {
    const int fd = ::mkstemp(path);
    REQUIRE(fd >= 0);
    ::close(fd);
    std::ofstream(path, std::ios::binary) << text;
  }
  ~AllowFile() { ::unlink(path); }
  char path[40] = "/tmp/starling-allow-XXXXXX";
};

std::string list_refusal(const std::string& text) {
  const AllowFile file(text);
  const auto list = AllowList::read(file.path);
  REQUIRE_FALSE(list.ok());
  CHECK(contains(list.error().message, file.path));
  CHECK(list.error().message.find('\n') == std::string::npos);
  return list.error().message;
}

std::string numbered(std::size_t peers) {
  std::string text;
  for (std::size_t i = 1; i <= peers; ++i) text += to_string(PeerId{i}) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a list names peers, roles and comments") {
  const AllowFile file(
      "# the machines of the lab\n\n"
      "0123456789abcdef\n"
      "  0123456789ABCDE0 member rack 3 \r\n"
      "\t0000000000000001\tobserver\t# Ann's laptop\n"
      "0000000000000002 # spare\n"
      "0000000000000003 member");
  const auto list = AllowList::read(file.path);
  REQUIRE(list.ok());
  using Role = AllowList::Role;
  CHECK(list->size() == 5);
  CHECK(list->role(PeerId{0x0123456789abcdef}) == Role::member);
  CHECK(list->role(PeerId{0x0123456789abcde0}) == Role::member);
  CHECK(list->role(PeerId{1}) == Role::observer);
  CHECK(list->role(PeerId{2}) == Role::member);
  CHECK(list->role(PeerId{3}) == Role::member);
  CHECK(list->role(PeerId{4}) == std::nullopt);
  CHECK(list->allows(PeerId{1}));
  CHECK_FALSE(list->allows(PeerId{4}));
  CHECK_FALSE(list->allows(PeerId{}));
}

TEST_CASE("an invalid list is rejected with the file, the line and the reason") {
  CHECK(contains(list_refusal("0123456789abcdef\nabc\n"), ":2: 'abc' is not the id of a peer"));
  CHECK(contains(list_refusal("0123456789abcdefa\n"), ":1: '0123456789abcdefa' is not the id of a peer"));
  CHECK(contains(list_refusal("-123456789abcdef\n"), "is not the id of a peer"));
  CHECK(contains(list_refusal("0000000000000000\n"), "is not the id of a peer"));
  CHECK(contains(list_refusal("\n\n0123456789abcdef observr\n"),
                 ":3: 'observr' is not a role; expected member, observer, or a comment that begins with #"));
  CHECK(contains(list_refusal("0123456789abcdef\n0123456789ABCDEF observer\n"),
                 ":2: 0123456789abcdef is listed twice"));
  CHECK(contains(list_refusal("# nobody yet\n"), " names no peer"));
  CHECK(contains(list_refusal(""), " names no peer"));
  CHECK(contains(list_refusal(std::string((std::size_t{1} << 20) + 1, '\n')), "has more than 1 MiB"));
  CHECK(contains(list_refusal(numbered(AllowList::kPeersMax + 1)), ":4097: more than 4096 peers are listed"));
  const auto absent = AllowList::read("/nonexistent/list");
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().message ==
        "the list of peers /nonexistent/list cannot be read: No such file or directory");
  const auto folder = AllowList::read("/tmp");
  REQUIRE_FALSE(folder.ok());
  CHECK(contains(folder.error().message, "the list of peers /tmp cannot be read"));
}

TEST_CASE("the largest list is read") {
  const AllowFile file(numbered(AllowList::kPeersMax));
  const auto list = AllowList::read(file.path);
  REQUIRE(list.ok());
  CHECK(list->size() == AllowList::kPeersMax);
}

}  // namespace starling::transport
