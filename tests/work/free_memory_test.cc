// The files of the machine and of control groups are written to a folder that stands for the root.
#include "node/work/free_memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"

namespace starling::node {
namespace {

using training::TemporaryFolder;

void write_file(const TemporaryFolder& root, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(root.file(name)).parent_path());
  root.write(name, text);
}

void write_machine(const TemporaryFolder& root) {
  write_file(root, "proc/meminfo",
             "MemTotal:       16000 kB\nMemFree:  10 kB\nMemAvailable:   9000 kB\nSwapFree: 1000 kB\n");
}

}  // namespace

TEST_CASE("without control groups, what the machine has available and its free swap are left") {
  const TemporaryFolder root;
  CHECK_FALSE(free_memory(root.path()).has_value());
  write_machine(root);
  CHECK(free_memory(root.path()) == 10'000 * 1024);
}

TEST_CASE("the limit of a control group, and of those that contain it, lowers what is left") {
  const TemporaryFolder root;
  write_machine(root);
  write_file(root, "proc/self/cgroup", "0::/outer/inner\n");
  write_file(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write_file(root, "sys/fs/cgroup/outer/inner/memory.current", "5000\n");
  CHECK(free_memory(root.path()) == 10'000 * 1024);
  write_file(root, "sys/fs/cgroup/outer/memory.max", "8000\n");
  write_file(root, "sys/fs/cgroup/outer/memory.current", "6000\n");
  CHECK(free_memory(root.path()) == 2000);
  // The kernel drops cached files before it refuses memory.
  write_file(root, "sys/fs/cgroup/outer/memory.stat", "anon 4000\ninactive_file 1500\n");
  CHECK(free_memory(root.path()) == 3500);
  write_file(root, "sys/fs/cgroup/outer/memory.current", "9000\n");
  CHECK(free_memory(root.path()) == 500);
  write_file(root, "sys/fs/cgroup/outer/inner/memory.max", "5000\n");
  CHECK(free_memory(root.path()) == 0);
}

TEST_CASE("a container that sees its own control group as the root is limited by it") {
  const TemporaryFolder root;
  write_machine(root);
  SECTION("version 2") {
    write_file(root, "proc/self/cgroup", "0::/\n");
    write_file(root, "sys/fs/cgroup/memory.max", "8000\n");
    write_file(root, "sys/fs/cgroup/memory.current", "7000\n");
  }
  SECTION("version 1") {
    write_file(root, "proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/x\n");
    write_file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n");
    write_file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "7500\n");
    write_file(root, "sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  }
  CHECK(free_memory(root.path()) == 1000);
}

TEST_CASE("a limit of the process's address space lowers what is left") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    constexpr rlim_t kLeft = rlim_t{16} << 20;
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kLeft;
    const rlimit limit{most, most};
    if (pages == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(1);
    const auto left = free_memory();
    ::_exit(left && *left <= kLeft ? 0 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace starling::node
