// Writes and reads a value as a JSON object from one list of its fields, so that each name occurs once:
//   template <class Visitor, class T> void fields(Visitor& visit, T& value) { visit("steps", value.steps); }
// FieldWriter writes the fields in the list's order. FieldReader lets a field that is missing or null keep
// its default, and ignores unknown fields. Expensive to compile: for .cc files only.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "training/runs/records/json.h"
#include "training/runs/records/staleness.h"

namespace starling::training {

// How an optional value without a value is written.
enum class Absent { as_null, left_out };

class FieldWriter {
 public:
  explicit FieldWriter(Absent absent = Absent::as_null) : absent_(absent) {}

  // A number that is not finite becomes null.
  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = value;
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) {
      object_[name] = *value;
    } else {
      leave(name);
    }
  }
  void operator()(const char* name, const Staleness& value) {
    Json& list = object_[name] = Json::array();
    for (std::size_t i = 0; i < value.used(); ++i) list.push_back(value.counts()[i]);
  }
  template <class T>
  void required(const char* name, const T& value) {
    (*this)(name, value);
  }
  // A text or a count that some values do not have: the empty text, the count 0.
  void if_any(const char* name, const std::string& value) {
    if (value.empty()) return leave(name);
    object_[name] = value;
  }
  void if_any(const char* name, std::uint64_t value) {
    if (value == 0) return leave(name);
    object_[name] = value;
  }
  template <class Fields>
  void object(const char* name, Fields fields) {
    FieldWriter inner(absent_);
    fields(inner);
    object_[name] = inner.take();
  }
  // An object that some values do not have.
  template <class T, class Fields>
  void object(const char* name, const std::optional<T>& value, Fields fields) {
    if (!value) return leave(name);
    object(name, [&](auto& inner) { fields(inner, *value); });
  }
  template <class T, class Fields>
  void list(const char* name, const std::vector<T>& values, Fields fields) {
    Json& list = object_[name] = Json::array();
    for (const T& value : values) {
      FieldWriter inner(absent_);
      fields(inner, value);
      list.push_back(inner.take());
    }
  }

  Json take() { return std::move(object_); }

 private:
  void leave(const char* name) {
    if (absent_ == Absent::as_null) object_[name] = nullptr;
  }

  Absent absent_;
  Json object_ = Json::object();
};

class FieldReader {
 public:
  // `whose` begins the error: "a report's".
  FieldReader(const Json& object, std::string whose) : object_(object), whose_(std::move(whose)) {}

  void operator()(const char* name, std::string& out) {
    if (const Json* field = find(name, &Json::is_string, "a string")) out = field->get<std::string>();
  }
  void operator()(const char* name, bool& out) {
    if (const Json* field = find(name, &Json::is_boolean, "true or false")) out = field->get<bool>();
  }
  template <class Unsigned>
  requires std::is_unsigned_v<Unsigned>
  void operator()(const char* name, Unsigned& out) {
    const Json* field = find(name, &Json::is_number_unsigned, "a whole number");
    if (field == nullptr) return;
    if (field->get<std::uint64_t>() > std::numeric_limits<Unsigned>::max())
      return refuse(name, "a whole number");
    out = field->get<Unsigned>();
  }
  void operator()(const char* name, double& out) {
    if (const Json* field = find(name, &Json::is_number, "a number")) out = field->get<double>();
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& out) {
    if (find(name) != nullptr) (*this)(name, out.emplace());
  }
  void operator()(const char* name, std::map<std::string, std::uint64_t>& out) {
    const Json* field = find(name, &Json::is_object, "an object");
    if (field == nullptr) return;
    for (const auto& [key, count] : field->items()) {
      if (!count.is_number_unsigned()) return refuse(name, "an object of whole numbers");
      out[key] = count.get<std::uint64_t>();
    }
  }
  void operator()(const char* name, std::map<std::string, std::string>& out) {
    const Json* field = find(name, &Json::is_object, "an object");
    if (field == nullptr) return;
    for (const auto& [key, text] : field->items()) {
      if (!text.is_string()) return refuse(name, "an object of strings");
      out[key] = text.get<std::string>();
    }
  }
  void operator()(const char* name, std::vector<std::string>& out) {
    const Json* field = find(name, &Json::is_array, "a list");
    if (field == nullptr) return;
    for (const Json& text : *field) {
      if (!text.is_string()) return refuse(name, "a list of strings");
      out.push_back(text.get<std::string>());
    }
  }
  void operator()(const char* name, Staleness& out) {
    const Json* field = find(name, &Json::is_array, "a list of at most 16 counts");
    if (field == nullptr) return;
    if (field->size() > Staleness::kBuckets) return refuse(name, "a list of at most 16 counts");
    for (std::size_t i = 0; i < field->size(); ++i) {
      const Json& count = (*field)[i];
      if (!count.is_number_unsigned()) return refuse(name, "a list of whole numbers");
      out.counts()[i] = count.get<std::uint64_t>();
    }
  }
  template <class T>
  void required(const char* name, T& out) {
    if (find(name) == nullptr && error_.empty()) error_ = whose_ + " \"" + name + "\" is missing";
    (*this)(name, out);
  }
  template <class T>
  void if_any(const char* name, T& out) {
    (*this)(name, out);
  }
  template <class Fields>
  void object(const char* name, Fields fields) {
    const Json* field = find(name, &Json::is_object, "an object");
    if (field == nullptr) return;
    FieldReader inner(*field, whose_);
    fields(inner);
    if (error_.empty()) error_ = inner.error_;
  }
  template <class T, class Fields>
  void object(const char* name, std::optional<T>& out, Fields fields) {
    if (find(name) == nullptr) return;
    object(name, [&](auto& inner) { fields(inner, out.emplace()); });
  }
  template <class T, class Fields>
  void list(const char* name, std::vector<T>& out, Fields fields) {
    const Json* field = find(name, &Json::is_array, "a list");
    if (field == nullptr) return;
    for (const Json& value : *field) {
      if (!value.is_object()) return refuse(name, "a list of objects");
      FieldReader inner(value, whose_);
      fields(inner, out.emplace_back());
      if (error_.empty()) error_ = inner.error_;
    }
  }

  // The first error: a field with another type, or a required one that is missing. Empty: no error.
  const std::string& error() const { return error_; }

 private:
  const Json* find(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  // The same; also null, with an error, if the field has another type.
  const Json* find(const char* name, bool (Json::*is_expected)() const, const char* expected) {
    const Json* field = find(name);
    if (field == nullptr || (field->*is_expected)()) return field;
    refuse(name, expected);
    return nullptr;
  }
  void refuse(const char* name, const char* expected) {
    if (error_.empty()) error_ = whose_ + " \"" + name + "\" is not " + expected;
  }

  const Json& object_;
  std::string whose_;
  std::string error_;
};

}  // namespace starling::training
