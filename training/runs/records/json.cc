#include "training/runs/records/json.h"

namespace starling::training {

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string to_line(const Json& json) { return to_text(json) + "\n"; }

Json parse_json(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

}  // namespace starling::training
