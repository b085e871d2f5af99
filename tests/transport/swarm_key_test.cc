#include "transport/trust/swarm_key.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/contains.h"

namespace starling::transport {
namespace {

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path) != nullptr); }
  ~Folder() {
    ::unlink(file().c_str());
    ::rmdir(path);
  }
  std::string file() const { return std::string(path) + "/key"; }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file()) << text;
    REQUIRE(::chmod(file().c_str(), mode) == 0);
  }
  char path[32] = "/tmp/starling-key-XXXXXX";
};

std::string refusal(const std::string& path) {
  const auto key = SwarmKeys::read(path);
  REQUIRE_FALSE(key.ok());
  CHECK(key.error().message.find(path) != std::string::npos);
  CHECK(key.error().message.find('\n') == std::string::npos);
  return key.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a generated key file is readable only by its owner, reads back equal, and is unique") {
  const Folder folder;
  const auto key = SwarmKey::draw(), other = SwarmKey::draw();
  REQUIRE((key.ok() && other.ok()));
  CHECK(key->bytes != other->bytes);
  REQUIRE(SwarmKeys(*key).create(folder.file()).ok());
  struct stat about {};
  REQUIRE(::stat(folder.file().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  const auto read = SwarmKeys::read(folder.file());
  REQUIRE(read.ok());
  CHECK(*read == SwarmKeys(*key));
  const auto again = SwarmKeys(*other).create(folder.file());
  REQUIRE_FALSE(again.ok());
  CHECK(contains(again.error().message, "already exists"));
  CHECK(*SwarmKeys::read(folder.file()) == SwarmKeys(*key));
}

TEST_CASE("a key from other programs is accepted: 32 bytes in base64") {
  const Folder folder;
  folder.write("  AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\r\n");
  const auto keys = SwarmKeys::read(folder.file());
  REQUIRE(keys.ok());
  REQUIRE(keys->entries.size() == 1);
  for (std::size_t i = 0; i < SwarmKey::kBytes; ++i)
    CHECK(keys->entries[0].key.bytes[i] == static_cast<std::byte>(i));
}

TEST_CASE("a key changes in three steps, and the file keeps each") {
  using Mark = SwarmKeys::Mark;
  const Folder folder;
  const auto first = SwarmKey::draw();
  REQUIRE(first.ok());
  REQUIRE(SwarmKeys(*first).create(folder.file()).ok());
  const auto rotate = [&](SwarmKeys::Step expected) {
    auto keys = SwarmKeys::read(folder.file());
    REQUIRE(keys.ok());
    const auto step = keys->rotate();
    REQUIRE(step.ok());
    CHECK(*step == expected);
    REQUIRE(keys->replace(folder.file()).ok());
    struct stat about {};
    REQUIRE(::stat(folder.file().c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
    const auto read = SwarmKeys::read(folder.file());
    REQUIRE(read.ok());
    CHECK(*read == *keys);
    return read->entries;
  };
  const auto added = rotate(SwarmKeys::Step::added);
  REQUIRE(added.size() == 2);
  CHECK((added[0].key == *first && added[0].mark == Mark::none && added[1].mark == Mark::next));
  CHECK(added[1].key != *first);
  const auto promoted = rotate(SwarmKeys::Step::promoted);
  REQUIRE(promoted.size() == 2);
  CHECK((promoted[0].key == added[1].key && promoted[0].mark == Mark::none));
  CHECK((promoted[1].key == *first && promoted[1].mark == Mark::old));
  const auto dropped = rotate(SwarmKeys::Step::dropped);
  REQUIRE(dropped.size() == 1);
  CHECK((dropped[0].key == added[1].key && dropped[0].mark == Mark::none));
}

TEST_CASE("a full file gets no further key") {
  const auto key = SwarmKey::draw();
  REQUIRE(key.ok());
  SwarmKeys keys(*key);
  keys.entries.resize(SwarmKeys::kMax, {*key});
  const auto step = keys.rotate();
  REQUIRE_FALSE(step.ok());
  CHECK(contains(step.error().message, "already has 8 keys"));
  CHECK(keys.entries.size() == SwarmKeys::kMax);
}

TEST_CASE("an invalid key file, or one that others may open, is rejected with the reason") {
  const Folder folder;
  CHECK(contains(refusal(folder.file()), "cannot be read: No such file"));
  CHECK(contains(refusal(folder.path), "is not a regular file"));
  folder.write("");
  CHECK(contains(refusal(folder.file()), "is empty"));
  folder.write(" \n");
  CHECK(contains(refusal(folder.file()), "is empty"));
  folder.write("correct horse battery staple\n");
  CHECK(contains(refusal(folder.file()), "does not contain a key, which is 32 random bytes in base64"));
  folder.write("AAECAwQFBgcICQoLDA0ODw==\n");
  CHECK(contains(refusal(folder.file()), "is too short: it has 16 bytes"));
  folder.write("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIj\n");
  CHECK(contains(refusal(folder.file()), "is too long: it has 36 bytes"));
  const std::string valid = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
  folder.write(valid + " soon\n");
  CHECK(contains(refusal(folder.file()), "does not contain a key, which is 32 random bytes in base64"));
  folder.write(valid + " old\n");
  CHECK(contains(refusal(folder.file()), "begins with a key that is marked"));
  folder.write(valid + "\nAAECAwQF\n");
  CHECK(contains(refusal(folder.file()), "is too short: it has 6 bytes"));
  std::string many;
  for (std::size_t i = 0; i <= SwarmKeys::kMax; ++i) many += valid + "\n";
  folder.write(many);
  CHECK(contains(refusal(folder.file()), "has more than 8 keys"));
  folder.write(std::string(100'000, 'A'));
  CHECK(contains(refusal(folder.file()), "is too long"));
  for (const mode_t mode : {0640U, 0604U, 0644U, 0620U}) {
    folder.write("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", mode);
    CHECK(contains(refusal(folder.file()), "can be read or written by others than its owner"));
    CHECK(contains(refusal(folder.file()), "chmod 600"));
  }
}

}  // namespace starling::transport
