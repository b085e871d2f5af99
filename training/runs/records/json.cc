#include "training/runs/records/json.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace starling::training {
namespace {

// Receives the parser's events. The library's own builder compares each new key of an object with all earlier
// ones, which takes quadratic time; this one appends, and compares the sorted keys at the end of the object.
class JsonBuilder {
 public:
  explicit JsonBuilder(const JsonLimits& limits) : limits_(limits) {}

  Result<Json> take() && {
    if (!why_.empty()) return Error{why_};
    return std::move(root_);
  }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return refuse("is not JSON"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool end_object() {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : open_.back().value.get_ref<const Json::object_t&>()) keys.push_back(key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) return refuse("has the key '" + std::string(twice->substr(0, 80)) + "' twice");
    return close();
  }
  bool key(std::string& key) {
    if (open_.back().value.size() >= limits_.keys)
      return refuse("has more than " + std::to_string(limits_.keys) + " keys in one object");
    open_.back().key = std::move(key);
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception&) {
    return refuse("is not JSON");
  }

 private:
  struct Open {
    Json value;
    std::string key;  // of an object: what the next value belongs to
  };

  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }
  bool open(Json value) {
    if (open_.size() >= limits_.depth) return refuse("is nested too deeply");
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& in = open_.back(); in.value.is_array()) {
      in.value.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      in.value.get_ref<Json::object_t&>().emplace_back(std::move(in.key), std::move(value));
    }
    return true;
  }

  const JsonLimits limits_;
  std::vector<Open> open_;  // innermost last
  Json root_;
  std::string why_;
};

}  // namespace

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string to_line(const Json& json) { return to_text(json) + "\n"; }

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  JsonBuilder builder(limits);
  Json::sax_parse(text, &builder);
  return std::move(builder).take();
}

Json parse_json(std::string_view text) {
  auto json = parse_json(text, JsonLimits{});
  return json ? std::move(*json) : Json(Json::value_t::discarded);
}

}  // namespace starling::training
