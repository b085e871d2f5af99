#include "models/spec_text.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/nearest.h"
#include "base/text.h"
#include "base/toml_keys.h"
#include "models/layer_types.h"

namespace starling::models {
namespace {

constexpr int kWholeMax = 1 << 20;
constexpr std::size_t kDotsMax = 4 * kLayersMax;  // in a text: each could open a nested table
constexpr std::size_t kNameMax = 100;
// Limits of a network that is given as text. A worker has several floats for each parameter.
constexpr std::size_t kParametersMax = std::size_t{1} << 29;
constexpr std::size_t kValuesMax = std::size_t{1} << 28;  // outputs of all layers for one sample

template <class T, class Value>
using Key = LayerKey<T, Value>;

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> kNames = layer_type_names();
  return kNames;
}

// For messages: short, and on one line.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string out(text.substr(0, kLongest));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + out + (text.size() > kLongest ? "...'" : "'");
}

std::string meant(std::string_view text, const std::vector<std::string>& names) {
  std::string folded(text.substr(0, 64));
  for (char& c : folded) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const std::string* name = nearest(folded, names);
  return name == nullptr ? std::string() : "; did you mean " + *name + "?";
}

// "batch_norm" and "batch-norm" mean "batch norm".
std::string canonical(std::string type) {
  std::replace_if(
      type.begin(), type.end(), [](char c) { return c == '_' || c == '-'; }, ' ');
  return type;
}

std::uint32_t line_of(const toml::node& node) { return std::max<std::uint32_t>(node.source().begin.line, 1); }

// Reads lists of layers; the limit on their number covers all lists together.
class Reader {
 public:
  // The network of a table with a type.
  Result<std::vector<Layer>, SpecError> whole(const toml::table& table,
                                              const std::vector<std::string>& others) {
    place_ = "the network";
    line_ = line_of(*table.get("type"));
    const auto* type = table.get("type")->as_string();
    if (type == nullptr || type->get() != LayerType<Gpt>::kName)
      return wrong(R"('type' must be "gpt"; a network of other layers has layers = [ ... ] and no type)");
    const auto gpt = fields<Gpt>(&table, 0, others);
    if (!gpt) return gpt.error();
    if (static_cast<std::size_t>(gpt->layers) > kLayersMax)
      return wrong("'layers' must be at most " + std::to_string(kLayersMax));
    return gpt_layers(*gpt);
  }

  // `where` distinguishes the layers of this list: "", " inside", " of its shortcut".
  Result<std::vector<Layer>, SpecError> list(const toml::array& array, const char* where, int depth) {
    std::vector<Layer> layers;
    for (std::size_t i = 0; i < array.size(); ++i) {
      place_ = "layer " + std::to_string(i + 1) + where;
      line_ = line_of(*array.get(i));
      if (++count_ > kLayersMax)
        return wrong("there are more than " + std::to_string(kLayersMax) + " layers");
      auto layer = one(*array.get(i), depth);
      if (!layer) return layer.error();
      const auto* linear = std::get_if<Linear>(&layer->kind);
      if (linear != nullptr && linear->features == 0 && (depth > 0 || i + 1 < array.size())) {
        return wrong("'features' is missing; only a network's last layer may omit it, for one per class");
      }
      layers.push_back(std::move(*layer));
    }
    return layers;
  }

 private:
  SpecError wrong(const std::string& what) const { return {{place_ + ": " + what}, line_}; }

  Result<Layer, SpecError> one(const toml::node& node, int depth) {
    const toml::table* table = node.as_table();
    const auto* name = node.as_string();
    if (table != nullptr) {
      const toml::node* type = table->get("type");
      if (type == nullptr) return wrong("'type' is missing, which is one of " + one_of(type_names()));
      name = type->as_string();
      if (name == nullptr) return wrong("'type' must be text, one of " + one_of(type_names()));
    } else if (name == nullptr) {
      return wrong(R"(expected a type such as "relu" or a table such as { type = "linear", features = 10 })");
    }
    const std::string type = canonical(name->get());
    std::optional<Result<Layer, SpecError>> read;
    for_each_layer_type([&]<class T>(T) {
      if (type == LayerType<T>::kName) read.emplace(layer<T>(table, depth));
    });
    if (read) return std::move(*read);
    const std::string hint = meant(type, type_names());
    return wrong("unknown layer " + shown(name->get()) + hint + (hint.empty() ? "; the" : " The") +
                 " layers are " + one_of(type_names()));
  }

  template <class T>
  Result<Layer, SpecError> layer(const toml::table* table, int depth) {
    place_ += std::string(" (") + LayerType<T>::kName + ")";
    auto read = fields<T>(table, depth, {});
    if (!read) return read.error();
    return Layer(std::move(*read));
  }

  // `table` is null if there is only a type. It may have `others`, which are not read.
  template <class T>
  Result<T, SpecError> fields(const toml::table* table, int depth, const std::vector<std::string>& others) {
    std::vector<std::string> names;
    for_each_key<T>([&](const auto& key) { names.emplace_back(key.name); });
    if (table != nullptr) {
      for (const auto& [key, node] : *table) {
        const auto has = [&](const auto& list) { return std::ranges::find(list, key.str()) != list.end(); };
        if (key.str() == "type" || has(names) || has(others)) continue;
        const std::string hint = meant(key.str(), names);
        return wrong("unknown key " + shown(key.str()) + hint + (hint.empty() ? "; it has " : " It has ") +
                     (names.empty() ? "only its type" : one_of(names)));
      }
    }
    T layer{};
    std::optional<SpecError> error;
    for_each_key<T>([&](const auto& key) {
      if (error) return;
      const toml::node* node = table == nullptr ? nullptr : table->get(key.name);
      if (node != nullptr) {
        error = field(layer, key, *node, depth);
      } else if (key.required) {
        error = wrong("'" + std::string(key.name) + "' is missing, " + range(key));
      }
    });
    if (error) return *error;
    return layer;
  }

  template <class T>
  static std::string range(const Key<T, int>& key) {
    return "a whole number from " + std::to_string(static_cast<int>(key.low)) + " to " +
           std::to_string(kWholeMax);
  }
  template <class T>
  static std::string range(const Key<T, double>& key) {
    return std::string("a number ") + (key.above_low ? "above 0 and " : "from 0 to ") +
           (key.above_low ? (key.below_high ? "below 1" : "at most 1") : (key.below_high ? "below 1" : "1"));
  }
  template <class T>
  static std::string range(const Key<T, bool>&) {
    return "true or false";
  }
  template <class T>
  static std::string range(const Key<T, std::vector<Layer>>& key) {
    return key.required ? "an array of at least one layer" : "an array of layers";
  }

  template <class T, class Value>
  SpecError wrong_value(const Key<T, Value>& key) const {
    return wrong("'" + std::string(key.name) + "' must be " + range(key));
  }

  template <class T>
  std::optional<SpecError> field(T& layer, const Key<T, int>& key, const toml::node& node, int) const {
    const auto* number = node.as_integer();
    if (number == nullptr || static_cast<double>(number->get()) < key.low || number->get() > kWholeMax)
      return wrong_value(key);
    layer.*key.field = static_cast<int>(number->get());
    return std::nullopt;
  }
  template <class T>
  std::optional<SpecError> field(T& layer, const Key<T, double>& key, const toml::node& node, int) const {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (const auto* whole = node.as_integer()) number = static_cast<double>(whole->get());
    if (const auto* real = node.as_floating_point()) number = real->get();
    if (!(key.above_low ? number > key.low : number >= key.low) ||
        !(key.below_high ? number < key.high : number <= key.high)) {
      return wrong_value(key);
    }
    layer.*key.field = number;
    return std::nullopt;
  }
  template <class T>
  std::optional<SpecError> field(T& layer, const Key<T, bool>& key, const toml::node& node, int) const {
    const auto* truth = node.as_boolean();
    if (truth == nullptr) return wrong_value(key);
    layer.*key.field = truth->get();
    return std::nullopt;
  }
  template <class T>
  std::optional<SpecError> field(T& layer, const Key<T, std::vector<Layer>>& key, const toml::node& node,
                                 int depth) {
    const toml::array* array = node.as_array();
    if (array == nullptr || (key.required && array->empty())) return wrong_value(key);
    if (depth == kResidualDepthMax)
      return wrong("residual blocks may be at most " + std::to_string(kResidualDepthMax) + " levels deep");
    const std::string place = place_;
    const std::uint32_t line = line_;
    auto inside = list(*array, key.required ? " inside" : " of its shortcut", depth + 1);
    if (!inside) {
      SpecError error = inside.error();
      error.message = place + ", " + error.message;
      return error;
    }
    place_ = place;
    line_ = line;
    layer.*key.field = std::move(*inside);
    return std::nullopt;
  }

  std::size_t count_ = 0;
  std::string place_;  // of the current layer in its list
  std::uint32_t line_ = 1;
};

SpecError too_long() {
  return {{"the layers have more than " + std::to_string(kLayersTextMax) + " bytes of text, the limit"}};
}

Result<std::vector<Layer>, SpecError> read_list(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr || array->empty()) {
    return SpecError{{R"(expected an array of at least one layer, for example ["relu", "linear"])"},
                     line_of(node)};
  }
  return Reader().list(*array, "", 0);
}

std::string description(const toml::parse_error& error) {
  std::string text(error.description());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

SpecError no_toml(const toml::parse_error& error) {
  return {{description(error)}, error.source().begin.line};
}

// The table of a document's network: [model] or, without that, the top level.
SpecError deep_key(int line) {
  return {{"a key has more than " + std::to_string(kKeyDotsMax) + " dots"}, static_cast<std::uint32_t>(line)};
}

const toml::table* table_of(const toml::table& document) {
  const toml::node* model = document.get("model");
  return model == nullptr ? &document : model->as_table();
}

// Whether the table says what the network is.
bool has_network(const toml::table* table) {
  return table != nullptr && (table->contains("layers") || table->contains("type"));
}

// The layers in the table, which may have `others` besides them. REQUIRES: has_network(&table).
Result<std::vector<Layer>, SpecError> layers_of(const toml::table& table,
                                                const std::vector<std::string>& others) {
  const bool whole = table.contains("type");
  const toml::node& node = *table.get(whole ? "type" : "layers");
  auto layers = whole ? Reader().whole(table, others) : read_list(node);
  if (!layers || format_layers(*layers).size() <= kLayersTextMax) return layers;
  SpecError error = too_long();
  error.line = line_of(node);
  return error;
}

// Writes layers, each on its own line (indented by `indent`) or all on one.
class Writer {
 public:
  explicit Writer(Lines lines) : many_(lines == Lines::many) {}

  std::string list(const std::vector<Layer>& layers, int indent) const {
    if (layers.empty()) return "[]";
    const auto begin = [this](int columns) {
      return many_ ? "\n" + std::string(static_cast<std::size_t>(columns), ' ') : std::string();
    };
    std::string text = "[";
    for (std::size_t i = 0; i < layers.size(); ++i) {
      text += begin(indent + 2) + one(layers[i], indent + 2);
      if (many_ || i + 1 < layers.size()) text += many_ ? "," : ", ";
    }
    return text + begin(indent) + "]";
  }

 private:
  std::string one(const Layer& layer, int indent) const {
    return std::visit(
        [&]<class T>(const T& it) {
          const T defaults{};
          std::string fields;
          for_each_key<T>([&](const auto& key) {
            if (!key.required && is_default(it.*key.field, defaults.*key.field)) return;
            fields += std::string(", ") + key.name + " = " + value(it.*key.field, indent);
          });
          const std::string type = std::string("\"") + LayerType<T>::kName + "\"";
          return fields.empty() ? type : "{ type = " + type + fields + " }";
        },
        layer.kind);
  }

  template <class Value>
  static bool is_default(const Value& it, const Value& other) {
    return it == other;
  }
  static bool is_default(const std::vector<Layer>& it, const std::vector<Layer>&) { return it.empty(); }

  static std::string value(int it, int) { return std::to_string(it); }
  static std::string value(double it, int) { return format_number(it); }
  static std::string value(bool it, int) { return it ? "true" : "false"; }
  std::string value(const std::vector<Layer>& it, int indent) const { return list(it, indent); }

  bool many_;
};

}  // namespace

Result<std::vector<Layer>, SpecError> parse_layers(std::string_view toml_array) {
  if (toml_array.size() > kLayersTextMax) return too_long();
  if (std::count(toml_array.begin(), toml_array.end(), '.') > static_cast<std::ptrdiff_t>(kDotsMax))
    return SpecError{{"there are more than " + std::to_string(kDotsMax) + " dots"}};
  try {
    const toml::table document = toml::parse("layers = " + std::string(toml_array));
    if (document.size() != 1) return SpecError{{"expected one array of layers and nothing after it"}};
    auto layers = read_list(*document.get("layers"));
    // A text may be shorter than its canonical form, which is sent.
    if (layers.ok() && format_layers(*layers).size() > kLayersTextMax) return too_long();
    return layers;
  } catch (const toml::parse_error& error) {
    return SpecError{{"it is not a TOML array: " + description(error)}, error.source().begin.line};
  }
}

std::string format_layers(const std::vector<Layer>& layers, Lines lines) {
  return Writer(lines).list(layers, 0);
}

Status check_model_name(std::string_view name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
  if (name.empty() || name.size() > kNameMax || !printable)
    return Error{"a network's name must be 1 to " + std::to_string(kNameMax) + " printable characters"};
  const auto& zoo = model_names();
  if (std::find(zoo.begin(), zoo.end(), name) != zoo.end()) {
    return Error{"'" + std::string(name) +
                 "' is a network of the zoo; a network with its own layers needs another name, or none for " +
                 kUnnamedModel};
  }
  if (is_model_file(name))
    return Error{shown(name) + " looks like a file; a network with its own layers needs another name"};
  return Done{};
}

Result<std::vector<Layer>, SpecError> read_layers(std::string_view toml_document,
                                                  const std::vector<std::string>& others) {
  if (const auto line = line_of_deep_key(toml_document)) return deep_key(*line);
  try {
    const toml::table document = toml::parse(toml_document);
    const toml::table* table = table_of(document);
    STARLING_CHECK(has_network(table));
    return layers_of(*table, others);
  } catch (const toml::parse_error& error) {
    return no_toml(error);
  }
}

Result<ModelText, SpecError> read_model(std::string_view toml_document, std::string_view name) {
  if (const auto line = line_of_deep_key(toml_document)) return deep_key(*line);
  try {
    const toml::table document = toml::parse(toml_document);
    const toml::table* table = table_of(document);
    if (!has_network(table)) {
      return SpecError{
          {"it contains no network; expected layers = [ ... ] or type = \"gpt\", at the top or in "
           "[model]"}};
    }
    for (const auto& [key, node] : *table) {
      if (table->contains("type") || key.str() == "name" || key.str() == "layers") continue;
      return SpecError{{"unknown key " + shown(key.str()) + "; a network has layers and optionally a name"},
                       line_of(node)};
    }
    ModelText read{check_model_name(name).ok() ? std::string(name) : kUnnamedModel};
    if (const toml::node* node = table->get("name")) {
      const auto* text = node->as_string();
      if (text == nullptr) return SpecError{{"name: expected text"}, line_of(*node)};
      if (Status fine = check_model_name(text->get()); !fine)
        return SpecError{{"name: " + fine.error().message}, line_of(*node)};
      read.name = text->get();
    }
    const auto layers = layers_of(*table, {"name"});
    if (!layers) return layers.error();
    read.layers = format_layers(*layers);
    return read;
  } catch (const toml::parse_error& error) {
    return no_toml(error);
  }
}

bool is_model_file(std::string_view name) {
  constexpr std::string_view kEnding = ".toml";
  if (name.size() <= kEnding.size()) return false;
  const std::string_view ending = name.substr(name.size() - kEnding.size());
  return std::ranges::equal(ending, kEnding, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
}

int context_of(const ModelText& model) {
  if (model.layers.empty()) return context_of(zoo_layers(model.name, 2).value_or(std::vector<Layer>{}));
  const auto layers = parse_layers(model.layers);
  return layers ? context_of(*layers) : 0;
}

Result<Plan> make_model(const ModelText& model, Shape input, int classes) {
  if (model.layers.empty()) return make_model(model.name, input, classes);
  const std::string where = "model \"" + model.name + "\": ";
  if (Status fine = check_model_name(model.name); !fine) return Error{where + fine.error().message};
  auto layers = parse_layers(model.layers);
  if (!layers) return Error{where + layers.error().message};
  if (auto* last = std::get_if<Linear>(&layers->back().kind); last != nullptr && last->features == 0)
    last->features = classes;
  if (auto* first = std::get_if<Embedding>(&layers->front().kind)) {
    if (first->tokens == 0) first->tokens = classes;
    if (first->tokens < classes) {
      return Error{where + "its embedding has " + std::to_string(first->tokens) +
                   " tokens, but the data has " + std::to_string(classes)};
    }
    if (input.tokens == 0) return Error{where + "it is for text, but the data has images or vectors"};
    input.tokens = first->context;
  }
  auto plan = make_plan({model.name, input, std::move(*layers)});
  if (!plan) return plan;
  if (plan->classes != classes) {
    return Error{where + plan->layers.back().name + " yields " + std::to_string(plan->classes) +
                 " logits, but there are " + std::to_string(classes) +
                 " classes; a last layer \"linear\" without features has one for each"};
  }
  std::size_t values = 0;
  for (const LayerInfo& layer : plan->layers) {
    values += static_cast<std::size_t>(layer.output.size());
    if (values <= kValuesMax) continue;
    return Error{where + "the layers up to " + layer.name + " yield more than " + std::to_string(kValuesMax) +
                 " values per sample"};
  }
  if (plan->layout.arena_size() > kParametersMax)
    return Error{where + "it has more than " + std::to_string(kParametersMax) + " parameters"};
  return plan;
}

}  // namespace starling::models
