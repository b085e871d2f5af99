// Which targets a file may replace, and what happens to a file that a check rejects.
#include "training/runs/records/files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"

namespace starling::training {
namespace {

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a symbolic link stays, and the file to which it leads is replaced") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("disk"));
  folder.write("disk/model", "old");
  REQUIRE(::symlink("disk/model", folder.file("first").c_str()) == 0);
  REQUIRE(::symlink(folder.file("first").c_str(), folder.file("second").c_str()) == 0);
  REQUIRE(::symlink("disk/none", folder.file("dangling").c_str()) == 0);
  REQUIRE(write_text(folder.file("second"), "new").ok());
  CHECK(contents(folder.file("disk/model")) == "new");
  CHECK(std::filesystem::is_symlink(folder.file("first")));
  CHECK(std::filesystem::is_symlink(folder.file("second")));
  REQUIRE(write_text(folder.file("dangling"), "made").ok());
  CHECK(contents(folder.file("disk/none")) == "made");
  CHECK(files_in(folder.file("disk")) == 2);
  CHECK(check_not_input(folder.file("second"), folder.file("disk/none")).ok());
  CHECK(!check_not_input(folder.file("second"), folder.file("disk/model")).ok());
  CHECK(check_not_input(folder.file("absent"), folder.file("absent")).ok());
}

TEST_CASE("a file that was read is not replaced, under whatever name, and a new one in its place is") {
  const TemporaryFolder folder;
  const std::string input = folder.write("input", "given");
  REQUIRE(read_own_text(input, 100).ok());
  REQUIRE(write_text(input, "given").ok());  // the program's own file
  REQUIRE(read_text(input, 100).ok());
  REQUIRE(::symlink(input.c_str(), folder.file("link").c_str()) == 0);
  REQUIRE(::link(input.c_str(), folder.file("hard").c_str()) == 0);
  for (const std::string& path :
       {input, folder.file("../") + folder.path().substr(folder.path().rfind('/')) + "/input",
        folder.file("link"), folder.file("hard")}) {
    const std::string why = "cannot write " + path + ": it is the file " + input + ", which is read";
    INFO(path);
    REQUIRE_FALSE(write_text(path, "new").ok());
    CHECK(write_text(path, "new").error().message == why);
    CHECK(check_target(path).error().message == why);
    CHECK(contents(input) == "given");
  }
  CHECK(files_in(folder.path()) == 3);
  // The user puts another file there: it is no input, even if it has the number of the former one.
  std::filesystem::remove(folder.file("hard"));
  std::filesystem::remove(input);
  folder.write("other", "of the program");
  CHECK(write_text(folder.file("other"), "again").ok());
  CHECK(write_text(folder.file("link"), "made").ok());
  CHECK(contents(input) == "made");
}

TEST_CASE("a file replaces a regular file, and nothing else that exists") {
  const TemporaryFolder folder;
  const std::string fifo = folder.file("fifo"), device = folder.file("device"),
                    socket = folder.file("socket");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/full", device.c_str()) == 0);
  sockaddr_un name{AF_UNIX, {}};
  REQUIRE(socket.size() < sizeof name.sun_path);
  std::strcpy(name.sun_path, socket.c_str());
  const int bound = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(bound, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  ::close(bound);
  for (const auto& [path, kind] : {std::pair(fifo, "pipe"), std::pair(device, "device"),
                                   std::pair(socket, "socket"), std::pair(folder.path(), "folder")}) {
    INFO(path);
    const auto before = std::filesystem::symlink_status(path).type();
    const std::string why = "cannot write " + path + ": it is a " + kind + ", expected a file";
    CHECK(check_target(path).error().message == why);
    CHECK(write_text(path, "text").error().message == why);
    CHECK(std::filesystem::symlink_status(path).type() == before);
  }
  CHECK(files_in(folder.path()) == 3);
  CHECK(std::filesystem::is_character_file("/dev/full"));
  for (const char* text : {"new", "replaced"}) {
    REQUIRE(write_text(folder.file("regular"), text).ok());
    CHECK(contents(folder.file("regular")) == text);
  }
}

TEST_CASE("a file that its check rejects leaves the older one and no temporary file") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  const std::string text = "new";
  const Bytes bytes = std::as_bytes(std::span(text));
  std::string seen;
  const Status refused =
      write_atomically(path, std::span(&bytes, 1), [&](const std::string& temporary) -> Status {
        seen = contents(temporary);
        return Error{"not this one"};
      });
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "not this one");
  CHECK(seen == "new");
  CHECK(contents(path) == "old");
  CHECK(files_in(folder.path()) == 1);
  REQUIRE(
      write_atomically(path, std::span(&bytes, 1), [](const std::string&) -> Status { return Done{}; }).ok());
  CHECK(contents(path) == "new");
}

TEST_CASE("standard output under its own name receives the text and is not replaced") {
  const TemporaryFolder folder;
  for (const char* path : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    INFO(path);
    const std::string out = folder.write("out", "");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int file = ::open(out.c_str(), O_WRONLY | O_CLOEXEC);
      if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0) ::_exit(1);
      ::_exit(write_text(path, "two ").ok() && write_text(path, "texts").ok() ? 0 : 2);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(contents(out) == "two texts");
    CHECK(std::filesystem::is_symlink("/dev/stdout"));
    CHECK(files_in(folder.path()) == 1);
  }
}

}  // namespace starling::training
