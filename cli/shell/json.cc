#include "cli/shell/json.h"

#include "training/records/json.h"

namespace starling::cli {

using json = training::Json;
using training::to_line;

std::string log_line_json(const std::string& time, const std::string& level, const std::string& peer,
                          const std::string& message) {
  json line = {{"time", time}, {"level", level}};
  if (!peer.empty()) line["peer"] = peer;
  line["message"] = message;
  return to_line(line);
}

namespace {

json flags_json(const std::vector<Flag>& flags) {
  json list = json::array();
  for (const Flag& flag : flags) {
    list.push_back({{"name", flag.name},
                    {"placeholder", flag.placeholder},
                    {"help", flag.help},
                    {"section", flag.section},
                    {"repeatable", flag.repeatable},
                    {"common", flag.common},
                    {"hidden", flag.hidden},
                    {"environment", flag.environment},
                    {"key", flag.key}});
  }
  return list;
}

}  // namespace

std::string tables_json(const std::vector<Command>& commands) {
  json list = json::array();
  for (const Command& command : commands) {
    json positionals = json::array();
    for (const Positional& positional : command.positionals) {
      positionals.push_back({{"name", positional.name},
                             {"help", positional.help},
                             {"required", positional.required},
                             {"repeatable", positional.repeatable}});
    }
    list.push_back({{"path", command.path},
                    {"summary", command.summary},
                    {"positionals", std::move(positionals)},
                    {"flags", flags_json(command.flags)},
                    {"example", command.example},
                    {"hidden", command.hidden}});
  }
  return to_line({{"commands", std::move(list)}, {"shared", flags_json(shared_flags())}});
}

}  // namespace starling::cli
