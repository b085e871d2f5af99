// Commands of the program that print one JSON object.
#pragma once

#include <nlohmann/json.hpp>

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

}  // namespace starling::cli_tests
