#include "tests/cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"

namespace starling::cli_tests {

Program::Program(const Words& arguments, const Environment& environment, const std::string& folder) {
  std::vector<std::string> words = {STARLING_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "STARLING_", 9) != 0) variables.emplace_back(*variable);
  }
  if (!environment.contains("STARLING_EXPORT")) variables.emplace_back("STARLING_EXPORT=none");  // no litter
  for (const auto& [name, value] : environment)
    if (name != "STARLING_EXPORT" || !value.empty()) variables.push_back(name + "=" + value);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);

  std::array<int, 2> out{}, err{};
  STARLING_CHECK(pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0);
  pid_ = fork();
  STARLING_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(127);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_, err_}) {
    if (fd >= 0) close(fd);
  }
}

bool Program::read_some(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> waiting = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (has_closed() || poll(waiting.data(), waiting.size(), static_cast<int>(limit.count())) == 0)
    return false;
  std::array<char, 4096> buffer;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
    const ssize_t count = read(waiting[i].fd, buffer.data(), buffer.size());
    if (count > 0) {
      (i == 0 ? outcome_.out : outcome_.err).append(buffer.data(), static_cast<std::size_t>(count));
    } else {
      close(waiting[i].fd);
      (i == 0 ? out_ : err_) = -1;
    }
  }
  return true;
}

bool Program::wait_for_error_text(const std::string& text, std::size_t times) {
  std::size_t at = 0;
  for (std::size_t found = 0; found < times;) {
    const std::size_t next = outcome_.err.find(text, at);
    if (next != std::string::npos) {
      at = next + text.size();
      ++found;
    } else if (!read_some()) {
      return false;
    }
  }
  return true;
}

std::string Program::wait_for_error_word(const std::string& text) {
  for (;;) {
    const std::size_t begin = outcome_.err.find(text);
    if (begin != std::string::npos && outcome_.err.find('\n', begin) != std::string::npos) {
      const std::size_t word = begin + text.size();
      return outcome_.err.substr(word, outcome_.err.find_first_of(", \n", word) - word);
    }
    if (!read_some()) return "";
  }
}

void Program::signal(int number) { kill(pid_, number); }

Outcome Program::finish() {
  while (!has_closed()) read_some();
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) outcome_.exit_code = WEXITSTATUS(status);
  return outcome_;
}

std::optional<Outcome> Program::finish_within(std::chrono::milliseconds limit) {
  for (const Beats beats; beats.passed() < limit;) {
    read_some(std::chrono::milliseconds(5));
    if (has_closed()) return finish();
  }
  return std::nullopt;
}

void Program::clog_errors() {
  const int fd = open(("/proc/self/fd/" + std::to_string(err_)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  STARLING_CHECK(fd >= 0);
  while (write(fd, "\n", 1) == 1) {
  }
  close(fd);
}

void Program::close_errors() {
  close(err_);
  err_ = -1;
}

bool Program::ends_unread_within(std::chrono::milliseconds limit) {
  for (const Beats beats; beats.passed() < limit; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_)
      return true;
  }
  return false;
}

Outcome run(const Words& arguments, const Environment& environment, const std::string& folder) {
  return Program(arguments, environment, folder).finish();
}

void kill_at_once(Program& program) {
  program.signal(SIGKILL);
  CHECK(program.finish().exit_code == -1);
}

bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == text.size() - 1; }

TemporaryFolder::TemporaryFolder() {
  path_ = (std::filesystem::temp_directory_path() / "starling-cli-XXXXXX").string();
  STARLING_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(file(name)) << text;
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace starling::cli_tests
