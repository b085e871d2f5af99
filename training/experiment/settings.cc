// The table of everything that can be set, and the ways in that need nothing but the table.
#include <algorithm>
#include <type_traits>

#include "base/text.h"
#include "models/spec_text.h"
#include "training/experiment/experiment.h"
#include "training/experiment/nearest.h"
#include "training/experiment/quantities.h"

namespace starling::training {
namespace {

template <class T>
struct Optional : std::false_type {};
template <class T>
struct Optional<std::optional<T>> : std::true_type {};

// A topology's name may hold a whole graph.
constexpr std::size_t kTopologyBytesMax = 49'152;

// What is `of_run_if_set` came later: a peer that does not know the setting takes part while it has its
// default.
enum Scope : std::uint8_t { of_peer, of_run, of_run_if_set };

// What `settings()` says about a setting before the member, the parser and the writer are put to it.
struct Entry {
  const char* key;
  const char* flag;
  const char* placeholder;
  const char* help;
  Setting::Form form;
  Scope scope;
};

template <class T, class Parse, class Format>
Setting make(const Entry& entry, T Experiment::*member, Parse parse, Format format) {
  Setting setting;
  setting.key = entry.key;
  setting.flag = entry.flag;
  setting.environment = "STARLING_";
  for (const char c : setting.flag.substr(2)) {
    setting.environment += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  setting.placeholder = entry.placeholder;
  setting.help = entry.help;
  setting.form = entry.form;
  setting.shared = entry.scope != of_peer;
  setting.told_by_default = entry.scope == of_run;
  setting.set = [member, parse](Experiment& experiment, std::string_view text) -> Status {
    const auto value = parse(text);
    if (!value.ok()) return value.error();
    if constexpr (Optional<T>::value) {
      experiment.*member = static_cast<typename T::value_type>(*value);
    } else {
      experiment.*member = static_cast<T>(*value);
    }
    return Done{};
  };
  setting.get = [member, format](const Experiment& experiment) -> std::optional<std::string> {
    if constexpr (Optional<T>::value) {
      if (!(experiment.*member)) return std::nullopt;
      return format(*(experiment.*member));
    } else {
      return format(experiment.*member);
    }
  };
  setting.reset = [member](Experiment& experiment) { experiment.*member = Experiment{}.*member; };
  return setting;
}

template <class T>
Setting whole(Entry entry, T Experiment::*member, std::uint64_t low, std::uint64_t high) {
  return make(
      entry, member, [low, high](std::string_view text) { return parse_whole(text, low, high); },
      [](std::uint64_t value) { return std::to_string(value); });
}

template <class T>
Setting real(Entry entry, T Experiment::*member, Interval interval) {
  return make(
      entry, member, [interval](std::string_view text) { return parse_real(text, interval); }, format_number);
}

Setting truth(Entry entry, bool Experiment::*member) {
  return make(
      entry, member,
      [](std::string_view text) -> Result<bool> {
        if (text == "true") return true;
        if (text == "false") return false;
        return Error{"'" + std::string(text.substr(0, 80)) + "' is neither true nor false"};
      },
      [](bool value) -> std::string { return value ? "true" : "false"; });
}

std::string same(const std::string& text) {
  return text;
}

// One of the names that this version has.
Setting choice(Entry entry, std::string Experiment::*member, std::vector<std::string> names) {
  return make(
      entry, member,
      [names = std::move(names)](std::string_view text) -> Result<std::string> {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string(text);
        return Error{"'" + std::string(text.substr(0, 80)) + "' is not available; this version has " +
                     one_of(names)};
      },
      same);
}

// Whether `text` is UTF-8 (RFC 3629): the experiment file can hold nothing else.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t j) -> unsigned {
      return j < text.size() ? static_cast<unsigned char>(text[j]) : 0;
    };
    const unsigned lead = at(i);
    const std::size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : (lead >> 4) == 0xe ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((at(i + j) & 0xc0) != 0x80) return false;
    }
    const unsigned second = at(i + 1);  // not too long a form, no surrogate, not beyond U+10FFFF
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

// Text that another room looks up: not empty, not long, printable.
template <class T>
Setting words(Entry entry, T Experiment::*member, std::size_t longest) {
  return make(
      entry, member,
      [longest](std::string_view text) -> Result<std::string> {
        const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
          const auto byte = static_cast<unsigned char>(c);
          return byte >= 0x20 && byte != 0x7f;
        });
        if (!text.empty() && text.size() <= longest && printable && is_utf8(text)) return std::string(text);
        return Error{"expected 1 to " + std::to_string(longest) + " printable characters in UTF-8"};
      },
      same);
}

// Layers, in their canonical text; none are unset.
Setting network_layers(Entry entry) {
  Setting setting = make(
      entry, &Experiment::layers,
      [](std::string_view text) -> Result<std::string> {
        const auto parsed = models::parse_layers(text);
        if (!parsed) return Error{parsed.error().message};
        return models::format_layers(*parsed);
      },
      same);
  setting.get = [](const Experiment& experiment) -> std::optional<std::string> {
    if (experiment.layers.empty()) return std::nullopt;
    return experiment.layers;
  };
  return setting;
}

Result<std::string> parse_device(std::string_view text) {
  constexpr std::string_view kGpu = "cuda:";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view number = text.substr(std::min(text.size(), kGpu.size()));
  const bool gpu = text.starts_with(kGpu) && !number.empty() && number.size() <= 3 &&
                   std::all_of(number.begin(), number.end(), is_digit);
  if (text == "auto" || text == "cpu" || gpu) return std::string(text);
  return Error{"'" + std::string(text.substr(0, 80)) + "' is no device; expected auto, cpu, or cuda:0, cuda:1, ..."};
}

// Different GPUs, with commas between them.
Result<std::vector<std::string>> parse_devices(std::string_view text) {
  std::vector<std::string> devices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto device = parse_device(text.substr(begin, end - begin));
    if (!device || !device->starts_with("cuda:") ||
        std::find(devices.begin(), devices.end(), *device) != devices.end()) {
      return Error{"'" + std::string(text.substr(0, 80)) +
                   "' does not name different GPUs; expected cuda:0,cuda:1, ..."};
    }
    devices.push_back(*device);
    begin = end + 1;
  }
  return devices;
}

Setting several_devices(Entry entry) {
  Setting setting = make(entry, &Experiment::devices, parse_devices, join_devices);
  setting.get = [](const Experiment& experiment) -> std::optional<std::string> {
    if (experiment.devices.empty()) return std::nullopt;
    return join_devices(experiment.devices);
  };
  return setting;
}

// A run's name is a part of its folder's.
Result<std::string> parse_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!text.empty() && text.size() <= 100 && text.front() != '.' && text.front() != '-' &&
      std::all_of(text.begin(), text.end(), fits)) {
    return std::string(text);
  }
  return Error{
      "'" + std::string(text.substr(0, 80)) +
      "' cannot name a run; expected 1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit"};
}

Result<Duration> parse_run_time(std::string_view text) {
  auto d = parse_seconds(text);
  if (d.ok() && *d == Duration{0})
    return Error{"a run of no time trains nothing; expected more than 0 seconds"};
  return d;
}

Result<std::uint64_t> parse_chunk(std::string_view text) {
  return parse_size(text, 4 * 1024, 1024 * 1024);
}

// A rate, of which infinity is written unlimited.
Result<double> parse_port(std::string_view text) {
  if (text == "unlimited") return kUnlimited;
  auto rate = parse_rate(text);
  if (!rate.ok()) return Error{rate.error().message + ", or unlimited"};
  return rate;
}
std::string format_port(double rate) {
  return rate == kUnlimited ? "unlimited" : format_rate(rate);
}

// A number, of which 0 is written auto.
template <class Parse>
auto automatic(Parse parse) {
  return [parse](std::string_view text) -> Result<std::uint64_t> {
    if (text == "auto") return std::uint64_t{0};
    auto value = parse(text);
    if (!value.ok()) return Error{value.error().message + ", or auto"};
    return value;
  };
}
template <class Format>
auto automatic_text(Format format) {
  return [format](std::uint64_t value) { return value == 0 ? std::string("auto") : format(value); };
}

std::vector<Setting> make_settings() {
  using enum Setting::Form;
  using E = Experiment;
  std::vector<Setting> table = {
      make({"name", "--name", "NAME", "name of the run; its folder is runs/NAME-SEED", text, of_peer},
           &E::name, parse_name, same),
      whole({"seed", "--seed", "N", "all chance in the run comes from it", number, of_run}, &E::seed, 0,
            UINT64_MAX),
      whole({"peers", "--peers", "N", "how many peers", number, of_run}, &E::peers, 1, 100'000),
      whole({"looks", "--looks", "N",
             "evaluations of the mean model per epoch; 0: only at the end. By default 20; in swarm without a "
             "target, as many as cost up to 2 % of the run, about 30 in all",
             number, of_peer},
            &E::looks, 0, 10'000),

      words({"model.name", "--model", "NAME-OR-FILE",
             "the network (starling model list), or a .toml file with layers", text, of_run},
            &E::model, 4096),
      network_layers({"model.layers", "--layers", "TOML",
                      "the layers of a network that the zoo does not have", array, of_run}),
      words({"model.init", "--init", "FILE",
             "a safetensors file of the network's parameters, which training begins with; else the seed draws them", text,
             of_peer},
            &E::init, 4096),
      words({"data.source", "--data", "NAME-OR-PATH", "the data set (starling data list)", text, of_run},
            &E::data, 4096),
      words({"data.partition", "--partition", "NAME", "how the data is dealt out to the peers", text, of_run},
            &E::partition, 100),

      whole({"training.batch_size", "--batch-size", "N", "samples in a step", number, of_run}, &E::batch_size,
            1, 65'536),
      choice({"training.optimizer", "--optimizer", "NAME", "sgd or adamw", text, of_run}, &E::optimizer,
             {"sgd", "adamw"}),
      real({"training.learning_rate", "--learning-rate", "R",
            "step size; by default 0.05 over the number of workers, of adamw 0.001; 0 only mixes", number,
            of_run},
           &E::learning_rate, {0, 1000}),
      real({"training.momentum", "--momentum", "R", "of each worker's own velocity; of adamw beta1", number,
            of_run},
           &E::momentum, {0, 1, false, true}),
      real({"training.beta2", "--beta2", "R", "of adamw: of the mean of the gradients' squares", number,
            of_run},
           &E::beta2, {0, 1, false, true}),
      real({"training.weight_decay", "--weight-decay", "R",
            "L2 penalty, added to the gradient; of adamw to the step", number, of_run},
           &E::weight_decay, {0, 1000}),
      truth({"training.nesterov", "--nesterov", "", "Nesterov's momentum", boolean, of_run}, &E::nesterov),
      truth({"training.quasi_global_momentum", "--quasi-global-momentum", "",
             "momentum that follows the swarm's way, for unlike data", boolean, of_run},
            &E::quasi_global_momentum),
      choice({"training.schedule", "--schedule", "NAME",
              "of the learning rate, by the swarm's progress: constant, cosine (to --epochs) or step", text,
              of_run_if_set},
             &E::schedule, {"constant", "cosine", "step"}),
      real({"training.warmup", "--warmup", "E",
            "epochs in which the learning rate rises from 0, for example 0.5", number, of_run_if_set},
           &E::warmup, {0, 1e6}),
      real({"training.step_epochs", "--step-epochs", "E",
            "schedule step: it goes down every so many epochs; by default a third of the run's", number,
            of_run_if_set},
           &E::step_epochs, {0, 1e6, true}),
      real({"training.step_factor", "--step-factor", "F", "schedule step: what it is multiplied by", number,
            of_run_if_set},
           &E::step_factor, {0, 1, true}),
      real({"training.final_rate", "--final-rate", "F",
            "schedule cosine: at the run's end, as a part of the learning rate", number, of_run_if_set},
           &E::final_rate, {0, 1}),
      whole({"training.crop", "--crop", "N",
             "training images are padded by N pixels on each side and cut back at random; 0: not", number,
             of_run_if_set},
            &E::crop, 0, 1024),
      truth({"training.flip", "--flip", "", "training images are mirrored left to right at random", boolean,
             of_run_if_set},
            &E::flip),
      make({"training.device", "--device", "DEVICE",
            "where a peer trains: cpu, cuda:N (an NVIDIA GPU, by its number), or auto: a GPU where one can "
            "be used",
            text, of_peer},
           &E::device, parse_device, same),
      several_devices({"training.devices", "--devices", "DEVICES",
                       "several GPUs of this machine for one peer, a replica on each: cuda:0,cuda:1", text,
                       of_peer}),
      whole({"training.average_every", "--average-every", "S",
             "steps of each of --devices between two averages of their replicas", number, of_peer},
            &E::average_every, 1, 1'000'000),
      choice({"training.precision", "--precision", "NAME",
              "what a peer multiplies: f32; bf16 where its device can; tf32, float32 rounded to 10 bits by a "
              "GPU",
              text, of_peer},
             &E::precision, {"f32", "bf16", "tf32"}),
      whole({"training.workers", "--workers", "N", "Hogwild workers in each peer", number, of_peer},
            &E::workers, 1, 1024),
      truth({"training.recompute", "--recompute", "",
             "activations are computed again instead of kept: less memory, more time", boolean, of_peer},
            &E::recompute),
      make({"training.pace", "--pace", "TIME", "least time of a step, for example 20ms", text, of_peer},
           &E::pace, parse_time, format_duration),
      real({"training.epochs", "--epochs", "E", "end after so many passes of the swarm over the data", number,
            of_run},
           &E::epochs, {0, 1e6, true}),
      whole({"training.steps", "--steps", "S", "end after so many steps of each peer", number, of_run},
            &E::steps, 1, 1'000'000'000'000),
      make({"training.seconds", "--seconds", "T", "end after so many seconds, or a time such as 2m", text,
            of_run},
           &E::seconds, parse_run_time, format_duration),
      real({"training.target_accuracy", "--target-accuracy", "A", "end when the mean model reaches it (0.97)",
            number, of_run},
           &E::target_accuracy, {0, 1, true}),

      choice({"gossip.rule", "--rule", "NAME",
              "how peers mix: pairwise, push-sum, d-psgd, choco, noloco, clipped; parameter-server, ssp: by servers; "
              "none: they learn alone; all-reduce: every step is one of all",
              text, of_run},
             &E::rule,
             {"pairwise", "push-sum", "d-psgd", "choco", "noloco", "clipped", "parameter-server", "ssp", "none",
              kAllReduce}),
      words({"gossip.topology", "--topology", "NAME", "who may exchange with whom (starling topology list)",
             text, of_run},
            &E::topology, kTopologyBytesMax),
      choice(
          {"gossip.partners", "--partners", "POLICY",
           "which neighbor is taken: uniform (at random), turns, or aware (quick ones with news more often)",
           text, of_run},
          &E::partners, {"uniform", "turns", "aware"}),
      make({"gossip.every", "--every", "WHEN",
            "how often a peer begins an exchange: '8 steps', '200ms', 'poisson 200ms', 'always'; by default "
            "as the "
            "rule has it",
            text, of_run},
           &E::every, parse_every, format_every),
      choice({"gossip.payload", "--payload", "NAME", "how parameters travel: f32, bf16, int8, top-k", text,
              of_run},
             &E::payload, {"f32", "bf16", "int8", "top-k"}),
      real({"gossip.top_k", "--top-k", "FRACTION", "of the parameters, that travels with payload top-k",
            number, of_run},
           &E::top_k, {0, 1, true}),
      choice({"gossip.weights", "--weights", "NAME",
              "how much a partner counts: equal, by its work, or by the age of its parameters", text, of_run},
             &E::weights, {"equal", "work", "age"}),
      real({"gossip.outer_rate", "--outer-rate", "R", "rule noloco: of the outer step", number, of_run},
           &E::outer_rate, {0, 1, true}),
      real({"gossip.outer_momentum", "--outer-momentum", "R", "rule noloco: of the outer step", number,
            of_run},
           &E::outer_momentum, {0, 1, false, true}),
      real({"gossip.consensus_rate", "--consensus-rate", "R",
            "rule choco: of the step towards the partner; by default as the payload has it", number, of_run},
           &E::consensus_rate, {0, 1, true}),
      real({"gossip.clip", "--clip", "C", "rule clipped: of the median distance, the most that is taken",
            number, of_run},
           &E::clip, {0, 100, true}),
      whole({"gossip.servers", "--servers", "N",
             "rules parameter-server and ssp: peers s0, s1, ... besides the others, each of which serves a part of the model",
             number, of_run_if_set},
            &E::servers, 1, 1024),
      whole({"gossip.racks", "--racks", "N",
             "rule parameter-server: so many more servers, each between a rack of peers and --servers; 0: none", number,
             of_run_if_set},
            &E::racks, 0, 1024),
      real({"gossip.server_rate", "--server-rate", "R",
            "rules parameter-server and ssp: of a push, as much is taken; by default 1 / number of peers that push",
            number, of_run_if_set},
           &E::server_rate, {0, 1, true}),
      whole({"gossip.staleness", "--staleness", "N",
             "rule ssp: so many pushes the fastest peer is ahead of the slowest at most", number, of_run_if_set},
            &E::staleness, 1, 1'000'000),
      make({"gossip.chunk", "--chunk", "SIZE", "of float32 in a frame, for example 64KiB, or auto", text,
            of_peer},
           &E::chunk, automatic(parse_chunk), automatic_text(format_size)),
      make({"gossip.window", "--window", "N", "chunks sent and not yet answered, or auto", text, of_peer},
           &E::window, automatic([](std::string_view text) { return parse_whole(text, 1, 256); }),
           automatic_text([](std::uint64_t n) { return std::to_string(n); })),

      make({"network.latency", "--latency", "TIME",
            "of every link, one way; between processes, in addition to what it has", text, of_peer},
           &E::latency, parse_time, format_duration),
      make({"network.bandwidth", "--bandwidth", "RATE", "of every link, each way, for example 100Mbit/s",
            text, of_peer},
           &E::bandwidth, parse_rate, format_rate),
      make({"network.port", "--port-bandwidth", "RATE",
            "what all links of a simulated peer share, each way, as a network card; by default as much as "
            "one link "
            "has; or unlimited",
            text, of_peer},
           &E::port, parse_port, format_port),
  };
  for (auto& setting : table) {
    if (setting.key == "data.source") setting.environment = "STARLING_DATA_SOURCE";
  }
  return table;
}

const Setting* find(std::string_view key) {
  for (const auto& setting : settings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

Status set_one(Experiment& experiment, const Setting& setting, std::string_view value,
               const std::string& place) {
  Status status = setting.set(experiment, value);
  if (status.ok()) return status;
  return Error{place + ": " + setting.key + ": " + status.error().message};
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = make_settings();
  return table;
}

Status set_value(Experiment& experiment, std::string_view key, std::string_view value,
                 const std::string& place) {
  if (const Setting* setting = find(key)) return set_one(experiment, *setting, value, place);
  std::vector<std::string> keys;
  for (const auto& setting : settings()) keys.push_back(setting.key);
  return Error{place + ": " + unknown_key(key, keys)};
}

Status read_environment(Experiment& experiment, const std::function<const char*(const char*)>& lookup) {
  Experiment read = experiment;
  bool name = false, layers = false;
  for (const auto& setting : settings()) {
    const char* value = lookup(setting.environment.c_str());
    if (value == nullptr || *value == '\0') continue;
    if (Status status = set_one(read, setting, value, setting.environment); !status) return status;
    name = name || setting.key == "model.name";
    layers = layers || setting.key == "model.layers";
  }
  if (Status status = settle_model(read, name, layers); !status)
    return Error{"STARLING_MODEL: " + status.error().message};
  experiment = std::move(read);
  return Done{};
}

std::vector<std::pair<std::string, std::string>> shared_settings(const Experiment& experiment) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& setting : settings()) {
    if (!setting.shared) continue;
    if (!setting.told_by_default && setting.get(experiment) == setting.get(Experiment{})) continue;
    if (setting.key == "training.learning_rate") {
      values.emplace_back(setting.key, format_number(resolved_learning_rate(experiment)));
    } else if (setting.key == "gossip.every") {
      values.emplace_back(setting.key, format_every(resolved_every(experiment)));
    } else if (auto value = setting.get(experiment)) {
      values.emplace_back(setting.key, std::move(*value));
    }
  }
  return values;
}

Status apply_shared(Experiment& experiment, const std::vector<std::pair<std::string, std::string>>& values) {
  static const std::string kPlace = "the swarm's settings";
  Experiment joined = experiment;
  for (const auto& setting : settings()) {
    if (setting.shared) setting.reset(joined);
  }
  for (const auto& [key, value] : values) {
    const Setting* setting = find(key);
    // What is each peer's own now may have been the swarm's to an earlier version, which had but the default.
    if (setting != nullptr && !setting->shared && setting->get(Experiment{}) == value) continue;
    if (setting != nullptr && !setting->shared)
      return Error{kPlace + ": " + setting->key + " is each peer's own"};
    if (Status status = set_value(joined, key, value, kPlace); !status) return status;
  }
  experiment = std::move(joined);
  return Done{};
}

}  // namespace starling::training
