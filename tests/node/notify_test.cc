#include "node/launch/notify.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"
#include "tests/node/manager.h"

namespace starling::node {
namespace {

// Sets an environment variable for the life of the object.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST_CASE("a service manager is notified when the peer is ready, of its status, and when it stops") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("starling-notify-" + std::to_string(getpid()))).string();
  for (const std::string& path : {file, "@" + file}) {
    CAPTURE(path);
    const Manager manager(path);
    const Variable where("NOTIFY_SOCKET", path);
    ServiceNotifier notifier;
    notifier.ready("listening");
    CHECK(manager.heard() == "READY=1\nSTATUS=listening");
    notifier.alive("listening");  // nothing new, and no watchdog
    CHECK(manager.heard().empty());
    notifier.alive("training");
    CHECK(manager.heard() == "STATUS=training");
    notifier.stopping();
    notifier.stopping();
    CHECK(manager.heard() == "STOPPING=1");
    CHECK(manager.heard().empty());
    std::filesystem::remove(file);
  }
}

TEST_CASE("a watchdog of this process gets a keep-alive every third of its time") {
  const std::string path = "@starling-watchdog-" + std::to_string(getpid());
  const Manager manager(path);
  const Variable where("NOTIFY_SOCKET", path);
  {
    const Variable often("WATCHDOG_USEC", "3"), mine("WATCHDOG_PID", std::to_string(getpid()));
    ServiceNotifier notifier;
    notifier.alive("");
    CHECK(manager.heard() == "WATCHDOG=1");
  }
  {
    const Variable seldom("WATCHDOG_USEC", "3600000000");
    ServiceNotifier notifier;
    notifier.alive("a");
    CHECK(manager.heard() == "STATUS=a\nWATCHDOG=1");
    notifier.alive("a");
    CHECK(manager.heard().empty());
  }
  {
    const Variable often("WATCHDOG_USEC", "3"), others("WATCHDOG_PID", "1");
    ServiceNotifier notifier;
    notifier.alive("");
    CHECK(manager.heard().empty());
  }
}

TEST_CASE("without a service manager, or with one that is gone, nothing is sent and nothing fails") {
  for (const std::string& path :
       std::vector<std::string>{"", "nonsense", "/nowhere/at/all", std::string(300, '/')}) {
    const Variable where("NOTIFY_SOCKET", path);
    ServiceNotifier notifier;
    notifier.ready("x");
    notifier.alive("y");
    notifier.stopping();
  }
  const std::string path = "@starling-gone-" + std::to_string(getpid());
  auto manager = std::make_unique<Manager>(path);
  const Variable where("NOTIFY_SOCKET", path);
  ServiceNotifier notifier;
  manager.reset();
  notifier.ready("x");
  SUCCEED();
}

}  // namespace
}  // namespace starling::node
