// Commands of the program that print one JSON object, and headers of safetensors files.
#pragma once

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {

// The JSON object that the command printed. REQUIREs exit code 0 and one object on one line.
inline nlohmann::json summary_of(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(is_one_line(outcome.out));
  const nlohmann::json summary = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(summary.is_object());
  return summary;
}

// What the command prints. REQUIREs exit code 0, an empty standard error, and one object on one line.
inline nlohmann::json run_json(const Words& arguments) {
  const Outcome outcome = run(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(is_one_line(outcome.out));
  const nlohmann::json object = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(object.is_object());
  return object;
}

// The header of a safetensors file; nothing if the file is incomplete. Read without the product's code.
inline std::optional<nlohmann::json> header_of(const std::string& path) {
  const std::string bytes = read_whole(path);
  std::uint64_t length = 0;
  if (bytes.size() < 8) return std::nullopt;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) return std::nullopt;
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length), nullptr, false);
  if (!header.is_object()) return std::nullopt;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : header.items())
    if (name != "__metadata__") end = std::max(end, tensor.at("data_offsets").at(1).get<std::uint64_t>());
  if (end != bytes.size() - 8 - length) return std::nullopt;
  return header;
}

}  // namespace starling::cli_tests
