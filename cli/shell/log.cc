#include "cli/shell/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/details/os.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/program.h"
#include "base/text.h"
#include "cli/shell/error_stream.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

constexpr const char* kFormatVariable = "STARLING_LOG_FORMAT";
constexpr const char* kLevelVariable = "STARLING_LOG_LEVEL";
constexpr std::array<std::pair<const char*, spdlog::level::level_enum>, 5> kLevels = {
    {{"trace", spdlog::level::trace},
     {"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err}}};

bool g_json = false;  // the process has one log

// RFC 3339, in UTC, with milliseconds.
std::string time_text(spdlog::log_clock::time_point at) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(since / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, since % 1000);
}

// {"time": ..., "level": ..., "peer": ..., "message": ...}, one line each. A logger has the name of its peer;
// the process's own logger has none, and its lines have no "peer".
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto text = [](spdlog::string_view_t view) { return std::string(view.data(), view.size()); };
    training::Json fields = {{"time", time_text(message.time)},
                             {"level", text(spdlog::level::to_string_view(message.level))}};
    if (message.logger_name.size() > 0) fields["peer"] = text(message.logger_name);
    fields["message"] = text(message.payload);
    const std::string line = training::to_line(fields);
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// "NAME: " if the logger has the name of its peer.
class PeerFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    if (message.logger_name.size() == 0) return;
    out.append(message.logger_name.data(), message.logger_name.data() + message.logger_name.size());
    const std::string_view separator = ": ";
    out.append(separator.data(), separator.data() + separator.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PeerFlag>();
  }
};

void set_format(bool json) {
  g_json = json;
  if (json) {
    spdlog::set_formatter(std::make_unique<JsonFormatter>());
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PeerFlag>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e%z %^%l%$ %*%v");
    spdlog::set_formatter(std::move(formatter));
  }
}

std::string lost_lines(std::uint64_t lines) {
  const std::string sentence =
      fmt::format("{} lines of the log were dropped, because nobody read standard error", lines);
  if (!g_json) return sentence + "\n";
  return training::to_line(
      {{"time", time_text(spdlog::log_clock::now())}, {"level", "warning"}, {"message", sentence}});
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

void begin_log(int argc, const char* const* argv) {
  begin_error_stream(lost_lines);
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  // The sink does not recognize the replaced stream as a terminal.
  if (can_redraw(STDERR_FILENO) && spdlog::details::os::is_color_terminal())
    sink->set_color_mode(spdlog::color_mode::always);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::move(sink)));
  bool json = variable(kFormatVariable) == "json";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--log-format" && i + 1 < argc) json = std::string_view(argv[i + 1]) == "json";
    if (word.starts_with("--log-format=")) json = word == "--log-format=json";
  }
  set_format(json);
}

Status set_log(const std::optional<std::string>& format, const std::optional<std::string>& level) {
  const std::string format_place = format ? "--log-format" : kFormatVariable;
  const auto wanted_format = format ? format : variable(kFormatVariable);
  if (wanted_format && *wanted_format != "text" && *wanted_format != "json")
    return Error{format_place + ": '" + wanted_format->substr(0, 80) + "' is unknown; expected text or json"};
  const std::string level_place = level ? "--log-level" : kLevelVariable;
  const auto wanted_level = level ? level : variable(kLevelVariable);
  std::optional<spdlog::level::level_enum> found;
  std::vector<std::string> names;
  for (const auto& [name, value] : kLevels) {
    names.emplace_back(name);
    if (wanted_level == name) found = value;
  }
  if (wanted_level && !found)
    return Error{level_place + ": '" + wanted_level->substr(0, 80) + "' is unknown; expected " +
                 one_of(names)};
  if (found) spdlog::set_level(*found);
  if (wanted_format) set_format(*wanted_format == "json");
  if (format) setenv(kFormatVariable, format->c_str(), 1);
  if (level) setenv(kLevelVariable, level->c_str(), 1);
  return Done{};
}

bool log_is_json() { return g_json; }

void tell(Told what, const std::string& sentence) {
  if (!g_json) {
    std::fprintf(stderr, "%s\n", sentence.c_str());
  } else {
    spdlog::log(what == Told::complaint ? spdlog::level::err : spdlog::level::info, "{}", sentence);
  }
}

bool may_redraw() { return !g_json && can_redraw(STDERR_FILENO); }

}  // namespace starling::cli
