// A graph in the format of ONNX, node by node. Values are referred to by their names. This class hides the
// generated code of the format, which only onnx_graph.cc includes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace starling::training {

class OnnxGraph {
 public:
  using Value = std::string;
  using Attribute = std::variant<std::int64_t, std::vector<std::int64_t>>;
  using Attributes = std::vector<std::pair<const char*, Attribute>>;
  enum class Type : std::uint8_t { bytes, floats, doubles, whole };

  // An input or output: its extents, where a name stands for one that may vary.
  using Extent = std::variant<std::int64_t, const char*>;
  struct Port {
    const char* name;
    Type type;
    std::vector<Extent> extents;
  };

  OnnxGraph();
  ~OnnxGraph();

  Value input(const Port& port);
  // Makes `value` an output.
  void output(const Port& port, const Value& value);

  // Values that are part of the file. A tensor whose name is known is not stored again.
  Value tensor(const std::string& name, std::span<const float> values,
               const std::vector<std::int64_t>& extents);
  Value doubles(const std::string& name, std::span<const double> values);
  Value number(double value);                            // a float
  Value whole(const std::vector<std::int64_t>& values);  // a vector
  Value whole_number(std::int64_t value);                // without extents

  // Names of the nodes that follow begin with this.
  void begin(const std::string& layer) { layer_ = layer; }
  Value node(const char* operation, const std::vector<Value>& inputs, const Attributes& attributes = {});
  // The same with several outputs.
  std::vector<Value> nodes(const char* operation, const std::vector<Value>& inputs, int outputs,
                           const Attributes& attributes = {});
  // The same values as another type.
  Value cast(const Value& value, Type type);

  // A fact about the model, which programs can read.
  void fact(const std::string& key, const std::string& value);
  // The file. An Error if it would exceed the format's 2 GiB.
  Result<std::string> bytes() const;

 private:
  Value fresh(const std::string& what);

  struct Model;
  std::unique_ptr<Model> model_;
  std::string layer_;
  std::size_t count_ = 0;  // of the names that fresh() made
};

}  // namespace starling::training
