#include "training/learning/export/onnx_graph.h"

#include <bit>
#include <cstring>
#include <set>

// Generated from the schema that ONNX publishes (cmake/Onnx.cmake).
#include <onnx.pb.h>

namespace starling::training {
namespace {

// The version of the format and of its operations: ONNX 1.12, which ONNX Runtime 1.12 and later read.
constexpr int kFormat = 8, kOperations = 17;
static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

int type_of(OnnxGraph::Type type) {
  switch (type) {
    case OnnxGraph::Type::bytes:
      return onnx::TensorProto::UINT8;
    case OnnxGraph::Type::floats:
      return onnx::TensorProto::FLOAT;
    case OnnxGraph::Type::doubles:
      return onnx::TensorProto::DOUBLE;
    case OnnxGraph::Type::whole:
      return onnx::TensorProto::INT64;
  }
  return onnx::TensorProto::UNDEFINED;
}

void describe(const OnnxGraph::Port& port, onnx::ValueInfoProto& info) {
  info.set_name(port.name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(type_of(port.type));
  for (const OnnxGraph::Extent& extent : port.extents) {
    auto& dimension = *type.mutable_shape()->add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&extent)) {
      dimension.set_dim_value(*number);
    } else {
      dimension.set_dim_param(std::get<const char*>(extent));
    }
  }
}

template <class T>
void fill(onnx::TensorProto& tensor, const std::string& name, int type, std::span<const T> values,
          const std::vector<std::int64_t>& extents) {
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t extent : extents) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size_bytes());
}

void add_attribute(onnx::NodeProto& node, const char* name, const OnnxGraph::Attribute& value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*number);
    return;
  }
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t number : std::get<std::vector<std::int64_t>>(value)) attribute.add_ints(number);
}

}  // namespace

struct OnnxGraph::Model {
  onnx::ModelProto proto;
  std::set<std::string> tensors;  // names of the tensors in the file

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }
  onnx::TensorProto& add_tensor(const std::string& name) {
    tensors.insert(name);
    return *graph().add_initializer();
  }
};

OnnxGraph::OnnxGraph() : model_(std::make_unique<Model>()) {
  model_->proto.set_ir_version(kFormat);
  model_->proto.set_producer_name("starling");
  onnx::OperatorSetIdProto& operations = *model_->proto.add_opset_import();
  operations.set_domain("");
  operations.set_version(kOperations);
  model_->graph().set_name("model");
}
OnnxGraph::~OnnxGraph() = default;

OnnxGraph::Value OnnxGraph::input(const Port& port) {
  describe(port, *model_->graph().add_input());
  return port.name;
}

void OnnxGraph::output(const Port& port, const Value& value) {
  describe(port, *model_->graph().add_output());
  onnx::NodeProto& node = *model_->graph().add_node();
  node.set_op_type("Identity");
  node.set_name(port.name);
  node.add_input(value);
  node.add_output(port.name);
}

OnnxGraph::Value OnnxGraph::tensor(const std::string& name, std::span<const float> values,
                                   const std::vector<std::int64_t>& extents) {
  if (!model_->tensors.contains(name))
    fill(model_->add_tensor(name), name, onnx::TensorProto::FLOAT, values, extents);
  return name;
}

OnnxGraph::Value OnnxGraph::doubles(const std::string& name, std::span<const double> values) {
  fill(model_->add_tensor(name), name, onnx::TensorProto::DOUBLE, values,
       {static_cast<std::int64_t>(values.size())});
  return name;
}

OnnxGraph::Value OnnxGraph::number(double value) {
  const auto single = static_cast<float>(value);
  return tensor(fresh("number"), std::span(&single, 1), {});
}

OnnxGraph::Value OnnxGraph::whole(const std::vector<std::int64_t>& values) {
  const std::string name = fresh("whole");
  fill(model_->add_tensor(name), name, onnx::TensorProto::INT64, std::span(values),
       {static_cast<std::int64_t>(values.size())});
  return name;
}

OnnxGraph::Value OnnxGraph::whole_number(std::int64_t value) {
  const std::string name = fresh("whole");
  fill(model_->add_tensor(name), name, onnx::TensorProto::INT64, std::span<const std::int64_t>(&value, 1),
       {});
  return name;
}

OnnxGraph::Value OnnxGraph::node(const char* operation, const std::vector<Value>& inputs,
                                 const Attributes& attributes) {
  return nodes(operation, inputs, 1, attributes).front();
}

std::vector<OnnxGraph::Value> OnnxGraph::nodes(const char* operation, const std::vector<Value>& inputs,
                                               int outputs, const Attributes& attributes) {
  onnx::NodeProto& node = *model_->graph().add_node();
  node.set_op_type(operation);
  for (const Value& input : inputs) node.add_input(input);
  for (const auto& [name, value] : attributes) add_attribute(node, name, value);
  std::vector<Value> results;
  for (int i = 0; i < outputs; ++i) {
    results.push_back(fresh(operation));
    node.add_output(results.back());
  }
  node.set_name(results.front());
  return results;
}

OnnxGraph::Value OnnxGraph::cast(const Value& value, Type type) {
  return node("Cast", {value}, {{"to", std::int64_t{type_of(type)}}});
}

void OnnxGraph::fact(const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *model_->proto.add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

Result<std::string> OnnxGraph::bytes() const {
  std::string text;
  if (model_->proto.ByteSizeLong() > INT32_MAX || !model_->proto.SerializeToString(&text))
    return Error{"the model has more than the 2 GiB that an ONNX file can hold"};
  return text;
}

OnnxGraph::Value OnnxGraph::fresh(const std::string& what) {
  return layer_ + "/" + what + "." + std::to_string(++count_);
}

}  // namespace starling::training
