#include "cli/commands/model/subject.h"

#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "cli/commands/flag_values.h"
#include "cli/commands/run/experiment_flags.h"
#include "training/learning/recipe.h"

namespace starling::cli {
namespace {

constexpr int kClassesMax = 1'000'000;
constexpr int kUsualTokens = 65;  // of a text as characters, such as tiny Shakespeare

// "1x28x28": channels, height, width.
Result<models::Shape> read_shape(const std::string& text) {
  std::array<int, 3> extents{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t x = i < 2 ? rest.find('x') : rest.size();
    const auto extent = parse_number<int>(rest.substr(0, x));
    if (x == std::string_view::npos || !extent || *extent < 1 || *extent > 4096) {
      return Error{"--input: '" + text +
                   "' is not CHANNELSxHEIGHTxWIDTH, each from 1 to 4096, for example 1x28x28"};
    }
    extents[i] = *extent;
    rest.remove_prefix(i < 2 ? x + 1 : x);
  }
  return models::Shape{extents[0], extents[1], extents[2]};
}

}  // namespace

Result<Subject> read_subject(const Arguments& arguments, const models::ModelText& model) {
  Subject subject;
  if (const auto name = arguments.get("--data")) {
    for (const char* flag : {"--input", "--classes"}) {
      if (arguments.has(flag))
        return Error{std::string(flag) + " cannot be combined with --data, which determines it"};
    }
    auto data = datasets::load(*name, data_root());
    if (!data) return data.error();
    if (const auto plan = training::make_plan(model, *data); !plan) return plan.error();
    const datasets::ImageShape& shape = data->train.shape;
    subject = {{shape.channels, shape.height, shape.width}, data->train.classes, std::move(*data)};
    if (subject.data->train.is_text()) subject.input = {1, 1, 1, shape.channels};
    return subject;
  }
  const int context = models::context_of(model);
  subject.classes = context > 0 ? kUsualTokens : 10;
  if (Status read = read_number(arguments, "--classes", 1, kClassesMax, subject.classes); !read)
    return read.error();
  if (context > 0) {
    if (arguments.has("--input"))
      return Error{"--input: " + model.name + " is for text, whose samples follow from it"};
    subject.input = {1, 1, 1, context};
    return subject;
  }
  const auto shape = read_shape(arguments.get("--input").value_or("1x28x28"));
  if (!shape) return shape.error();
  subject.input = *shape;
  return subject;
}

}  // namespace starling::cli
