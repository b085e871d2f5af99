#include "base/program.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/catch.h"

namespace starling {
namespace {

using Values = std::map<std::string, const char*>;

// Sets variables of the environment, and restores them.
class Variables {
 public:
  explicit Variables(const Values& values) {
    for (const auto& [name, value] : values) {
      const char* const before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      set(name, value);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  static void set(const std::string& name, const char* value) {
    if (value == nullptr)
      unsetenv(name.c_str());
    else
      setenv(name.c_str(), value, 1);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

bool utf8_with(const char* all, const char* ctype, const char* lang) {
  const Variables variables(Values{{"LC_ALL", all}, {"LC_CTYPE", ctype}, {"LANG", lang}});
  return shows_utf8();
}

}  // namespace

TEST_CASE("escape codes are for terminals that understand them, and lines fit their width") {
  int ours = -1, theirs = -1;
  winsize size{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(::openpty(&ours, &theirs, nullptr, nullptr, &size) == 0);
  {
    const Variables usual(Values{{"TERM", "xterm-256color"}});
    CHECK(can_redraw(theirs));
  }
  {
    const Variables dumb(Values{{"TERM", "dumb"}});
    CHECK_FALSE(can_redraw(theirs));
  }
  CHECK(terminal_columns(theirs) == 20);
  ::close(ours);
  ::close(theirs);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  CHECK_FALSE(can_redraw(pipe[1]));
  CHECK(terminal_columns(pipe[1]) == 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(cut_to_columns("peer  state\np0\n", 6) == "peer  \np0\n");
  CHECK(cut_to_columns("Z\xc3\xbcrich", 3) == "Z\xc3\xbcr");
  CHECK(cut_to_columns("any length", 0) == "any length");
}

TEST_CASE("the locale says whether characters beyond ASCII are shown") {
  CHECK(utf8_with(nullptr, nullptr, nullptr));
  CHECK_FALSE(utf8_with(nullptr, nullptr, "C"));
  CHECK_FALSE(utf8_with(nullptr, "POSIX", "en_US.UTF-8"));
  CHECK_FALSE(utf8_with(nullptr, nullptr, "de_DE.ISO-8859-1"));
  CHECK(utf8_with("C.utf8", nullptr, "C"));
  CHECK(utf8_with("", "", "de_DE.UTF-8"));
}

}  // namespace starling
