// Keys of peers: signatures, ids, and the file.
#include "transport/trust/identity.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::transport {
namespace {

struct IdentityFolder {
  IdentityFolder() { REQUIRE(::mkdtemp(path) != nullptr); }
  ~IdentityFolder() {
    ::unlink(file().c_str());
    ::rmdir(path);
  }
  std::string file() const { return std::string(path) + "/identity"; }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file()) << text;
    REQUIRE(::chmod(file().c_str(), mode) == 0);
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file()).rdbuf();
    return all.str();
  }
  char path[40] = "/tmp/starling-identity-XXXXXX";
};

using IdentityPtr = std::shared_ptr<const Ed25519Identity>;

IdentityPtr made(const std::string& swarm = "test") {
  auto identity = Ed25519Identity::make_new(swarm);
  REQUIRE(identity.ok());
  return *identity;
}

Bytes raw_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string identity_refusal(const IdentityFolder& folder) {
  const std::string before = folder.text();
  const auto identity = Ed25519Identity::read_or_create(folder.file(), "test");
  REQUIRE_FALSE(identity.ok());
  CHECK(contains(identity.error().message, folder.file()));
  CHECK(identity.error().message.find('\n') == std::string::npos);
  CHECK(folder.text() == before);
  return identity.error().message;
}

}  // namespace

TEST_CASE("a signature holds for its key, statement and swarm only") {
  const IdentityPtr one = made(), other = made(), abroad = made("herd");
  const Signature signature = one->sign(raw_bytes("statement"));
  CHECK(one->verify(one->key(), raw_bytes("statement"), signature));
  CHECK(other->verify(one->key(), raw_bytes("statement"), signature));
  CHECK_FALSE(other->verify(other->key(), raw_bytes("statement"), signature));
  CHECK_FALSE(other->verify(one->key(), raw_bytes("statemen"), signature));
  CHECK_FALSE(abroad->verify(one->key(), raw_bytes("statement"), signature));
  CHECK_FALSE(one->verify(one->key(), raw_bytes("statement"), {}));
  CHECK_FALSE(one->verify({}, raw_bytes("statement"), signature));
  for (const std::size_t at : {0, 31, 32, 63}) {
    Signature changed = signature;
    changed.bytes[at] ^= std::byte{1};
    CHECK_FALSE(one->verify(one->key(), raw_bytes("statement"), changed));
  }
  // The name of the swarm cannot continue in the statement.
  const IdentityPtr shorter = made("te");
  CHECK_FALSE(shorter->verify(one->key(), raw_bytes(std::string("st\0statement", 12)), signature));
}

TEST_CASE("a key with which one signature would hold for every statement is refused") {
  const IdentityPtr one = made();
  const auto key_of = [](const std::string& first, std::byte middle, std::byte last) {
    PublicKey key;
    key.bytes.fill(middle);
    std::memcpy(key.bytes.data(), first.data(), first.size());
    key.bytes.back() = last;
    return key;
  };
  Signature always;  // R is the neutral point, S is 0
  always.bytes[0] = std::byte{1};
  constexpr std::byte kNone{0}, kAll{0xff};
  for (const std::byte sign : {std::byte{0}, std::byte{0x80}}) {
    const std::byte high = sign | std::byte{0x7f};
    // Orders 1, 4 and 2; then 1 and 4 in the second encoding, y + p.
    for (const PublicKey& key :
         {key_of("\x01", kNone, sign), key_of(std::string(1, '\0'), kNone, sign), key_of("\xec", kAll, high),
          key_of("\xee", kAll, high), key_of("\xed", kAll, high)}) {
      for (const char* statement : {"a", "b", "c", "d", "e", "f", "g", "h"})
        CHECK_FALSE(one->verify(key, raw_bytes(statement), always));
    }
  }
}

TEST_CASE("an id is a part of the hash of the key") {
  PublicKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::byte>(i);
  // sha256 of the bytes 0 to 31: 630dcd2966c4336691125448bbb25b4f...
  CHECK(made()->id_of(key) == PeerId{0x630dcd2966c43366});
  const IdentityPtr one = made(), other = made();
  CHECK(one->id() != other->id());
  CHECK(other->id_of(one->key()) == one->id());
}

TEST_CASE("an identity stays in its file, which only its owner can read") {
  const IdentityFolder folder;
  PublicKey key;
  {
    const auto first = Ed25519Identity::read_or_create(folder.file(), "test");
    REQUIRE(first.ok());
    key = (*first)->key();
  }
  struct stat about {};
  REQUIRE(::stat(folder.file().c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0600);
  CHECK(folder.text().starts_with("starling identity 1\n"));
  CHECK(folder.text().size() == 20 + 64 + 1);
  const auto again = Ed25519Identity::read_or_create(folder.file(), "test");
  REQUIRE(again.ok());
  CHECK((*again)->key() == key);
  CHECK((*again)->verify(key, raw_bytes("x"), (*again)->sign(raw_bytes("x"))));
}

TEST_CASE("the key in a file is the seed of RFC 8032") {
  const IdentityFolder folder;
  folder.write("starling identity 1\n9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n");
  const auto identity = Ed25519Identity::read_or_create(folder.file(), "test");
  REQUIRE(identity.ok());
  const PublicKey& key = (*identity)->key();
  CHECK(key.bytes[0] == std::byte{0xd7});
  CHECK(key.bytes[1] == std::byte{0x5a});
  CHECK(key.bytes[31] == std::byte{0x1a});
}

TEST_CASE("one process at a time uses an identity") {
  const IdentityFolder folder;
  {
    const auto first = Ed25519Identity::read_or_create(folder.file(), "test");
    REQUIRE(first.ok());
    CHECK(identity_refusal(folder) ==
          "another peer runs with the identity in " + folder.file() + "; each peer needs its own --state");
    const pid_t child = ::fork();
    if (child == 0) ::_exit(Ed25519Identity::read_or_create(folder.file(), "test").ok() ? 1 : 0);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(Ed25519Identity::read_or_create(folder.file(), "test").ok());
}

TEST_CASE("a file that holds no identity is rejected with the reason, and kept") {
  const IdentityFolder folder;
  const std::string seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
  const std::string first = "starling identity 1\n";
  folder.write("");
  CHECK(contains(identity_refusal(folder), "is empty; without the file the peer makes a new identity"));
  for (const std::string& text :
       {seed + "\n", "starling identity 2\n" + seed + "\n", first, first + seed.substr(1) + "\n",
        first + seed + "0\n", first + seed.substr(1) + "g\n", first + seed.substr(1) + "A\n",
        first + seed + "\n\n", first + seed + "\n" + seed + "\n", " " + first + seed + "\n",
        std::string(100'000, 'a')}) {
    INFO(text.substr(0, 100));
    folder.write(text);
    CHECK(contains(identity_refusal(folder), "does not hold an identity"));
  }
  for (const mode_t mode : {0640U, 0604U, 0620U, 0601U}) {
    folder.write(first + seed + "\n", mode);
    CHECK(contains(identity_refusal(folder), "can be read or written by others than its owner"));
  }
  folder.write(first + seed);
  CHECK(Ed25519Identity::read_or_create(folder.file(), "test").ok());
}

TEST_CASE("an identity file that cannot be made is an error with the reason") {
  const auto nowhere = Ed25519Identity::read_or_create("/nonexistent/identity", "test");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message == "/nonexistent/identity cannot be written: No such file or directory");
  const auto folder = Ed25519Identity::read_or_create("/tmp", "test");
  REQUIRE_FALSE(folder.ok());
  CHECK(contains(folder.error().message, "the identity file /tmp is not a regular file"));
}

}  // namespace starling::transport
