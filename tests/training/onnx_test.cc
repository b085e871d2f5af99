// Models as ONNX files, compared with the network itself.
#include "training/learning/export/onnx.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include "kernels/by_name/backends.h"
#include "models/network.h"
#include "tests/catch.h"
#include "tests/training/drawn_networks.h"
#include "tests/training/temporary_folder.h"

namespace starling::training {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

datasets::Description described(const models::Plan& plan, bool floats) {
  datasets::Description data;
  const models::Shape in = plan.spec.input;
  data.is_text = in.tokens > 0;
  data.floats = floats;
  data.shape = {in.channels, in.height, in.width};
  data.classes = plan.classes;
  return data;
}

std::vector<float> drawn_parameters(const models::Plan& plan, Random random) {
  std::vector<float> parameters(plan.layout.arena_size());
  models::initialize(plan, random.split(1), parameters);
  for (const models::Tensor& tensor : plan.layout.tensors()) {
    if (tensor.shape.size() > 1) continue;
    const double spread = tensor.name.ends_with("running_var") ? 0 : 0.2;
    for (float& value : std::span(parameters).subspan(tensor.offset, tensor.size))
      value = static_cast<float>(value + spread * random.normal() + (spread > 0 ? 0 : random.uniform()));
  }
  return parameters;
}

// Writes the files of a case (tests/training/run_onnx.py) for samples of a plan.
class Case {
 public:
  Case(const models::Plan& plan, std::uint64_t seed, bool floats = false)
      : plan_(plan),
        random_(seed),
        data_(described(plan, floats)),
        parameters_(drawn_parameters(plan, random_)) {
    if (!data_.is_text) draw_normalization();
  }

  void write(const TemporaryFolder& folder, const std::string& name, int batch) {
    const models::Shape in = plan_.spec.input;
    const auto sample = static_cast<std::size_t>(in.size());
    std::vector<float> inputs;
    std::string raw;
    for (std::size_t i = 0; i < sample * static_cast<std::size_t>(batch); ++i)
      raw += data_.is_text ? token(inputs) : value(i % sample, inputs);
    const auto backend = kernels::make_backend("cpu");
    REQUIRE(backend.ok());
    models::Network network(plan_, **backend, batch, models::NetworkUse::evaluate);
    std::vector<float> logits(static_cast<std::size_t>(network.predictions()) *
                              static_cast<std::size_t>(plan_.classes));
    network.score(parameters_.data(), inputs.data(), batch, logits);
    const auto file = to_onnx(plan_, parameters_, data_, {{"model", plan_.spec.name}});
    REQUIRE(file.ok());
    folder.write(name + ".onnx", *file);
    folder.write(name + ".input", raw);
    folder.write(name + ".logits", bytes_of(logits));
    const std::string each =
        data_.is_text ? std::to_string(in.tokens)
        : data_.is_rows()
            ? std::to_string(in.channels)
            : std::to_string(in.channels) + "," + std::to_string(in.height) + "," + std::to_string(in.width);
    folder.write(name + ".extents", "[" + std::to_string(batch) + "," + each + "]");
  }

 private:
  void draw_normalization() {
    for (int c = 0; c < data_.shape.channels; ++c) {
      data_.normalization.push_back(
          {static_cast<float>(random_.normal()), static_cast<float>(0.5 + random_.uniform())});
      if (data_.floats && data_.is_rows()) data_.offsets.push_back(1.7e9 * random_.uniform());
    }
  }
  // The bytes of one value of the file's input; appends what the network reads.
  std::string token(std::vector<float>& inputs) {
    const auto drawn = static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(plan_.classes)));
    inputs.push_back(static_cast<float>(drawn));
    return bytes_of(std::vector{drawn});
  }
  std::string value(std::size_t place, std::vector<float>& inputs) {
    const std::size_t channel = place / data_.shape.plane();
    const datasets::Normalization n = data_.normalization[channel];
    const auto normalized = [&](float stored) { inputs.push_back((stored - n.mean) / n.deviation); };
    if (!data_.floats) {
      const auto byte = static_cast<std::uint8_t>(random_.below(256));
      normalized(static_cast<float>(byte) / 255);
      return bytes_of(std::vector{byte});
    }
    const auto stored = static_cast<float>(random_.normal());
    if (!data_.is_rows()) {
      normalized(stored);
      return bytes_of(std::vector{stored});
    }
    const double raw = data_.offsets[channel] + static_cast<double>(stored);
    normalized(static_cast<float>(raw - data_.offsets[channel]));
    return bytes_of(std::vector{raw});
  }

  const models::Plan& plan_;
  Random random_;
  datasets::Description data_;
  std::vector<float> parameters_;
};

// Runs the cases of the folder in ONNX Runtime.
void check_in_runtime(const TemporaryFolder& folder) {
  const std::string command = "python3 " STARLING_SOURCE_DIR "/tests/training/run_onnx.py " + folder.path() +
                              " > " + folder.file("said") + " 2>&1";
  const int status = std::system(command.c_str());
  constexpr int kMissing = 77 << 8;
  if (status == kMissing) {
    WARN("skipped: " << contents(folder.file("said")));
    return;
  }
  INFO(contents(folder.file("said")));
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("ONNX Runtime computes the logits of every network of the zoo from its ONNX file", "[figures]") {
  const TemporaryFolder folder;
  std::uint64_t seed = 1;
  for (const std::string& name : models::model_names()) {
    const auto layers = models::zoo_layers(name, 10);
    REQUIRE(layers);
    const int context = models::context_of(*layers);
    const models::Shape input = context > 0 ? models::Shape{1, 1, 1, context} : models::Shape{3, 32, 32};
    const auto plan = models::make_model(name, input, context > 0 ? 65 : 10);
    REQUIRE(plan.ok());
    Case(*plan, seed++).write(folder, name, context > 256 ? 1 : 2);
  }
  check_in_runtime(folder);
}

TEST_CASE("ONNX Runtime computes the logits of 100 drawn networks from their ONNX files", "[figures]") {
  const TemporaryFolder folder;
  std::set<std::size_t> types;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto samples = static_cast<Samples>(seed % 3);
    const models::Plan plan = NetworkDraw(Random(seed), samples).plan(5);
    for (const models::LayerInfo& info : plan.layers) types.insert(info.layer.kind.index());
    Case(plan, seed, seed % 2 == 0 || samples == Samples::rows).write(folder, std::to_string(seed), 3);
  }
  // Every type of layer occurs; in a plan a block has become its layers.
  CHECK(types.size() == std::variant_size_v<models::Layer::Kind> - 1);
  check_in_runtime(folder);
}

}  // namespace starling::training
