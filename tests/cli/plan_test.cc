// starling plan: networks of this machine and published profiles, divided among devices.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Four layers in a chain; each takes 3 ms, a third of it forward. 125 kB cross each cut, which takes 1 ms at
// 1 Gbit/s, and as much back; each layer has 125 kB of parameters.
std::string even_profile() {
  std::string text;
  for (const char* name : {"a", "b", "c", "d"}) {
    text += std::string("node-") + name +
            " -- Linear -- forward_compute_time=1.000, backward_compute_time=2.000, "
            "activation_size=125000.0, parameter_size=125000.0\n";
  }
  return text + "\tnode-a -- node-b\n\tnode-b -- node-c\n\tnode-c -- node-d\n";
}

bool near(const json& value, double expected) {
  return std::abs(value.get<double>() - expected) <= 1e-9 * std::max(1.0, std::abs(expected));
}

Words plan_of(const std::string& profile, const Words& more) {
  Words words = {"plan", "--profile", profile};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("plan divides a profile, and predicts what the stages take") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  const json it = run_json(plan_of(folder.file("even.txt"), {"--replicas", "1-1", "--json"}));
  CHECK(it.at("name") == folder.file("even.txt"));
  CHECK(it.at("measured").is_null());
  CHECK(it.at("schedule") == "pipedream");
  CHECK(it.at("micro_batches") == 1);
  CHECK(it.at("devices") == 2);
  CHECK(it.at("bandwidth_bits_per_second") == json({1e9}));
  REQUIRE(it.at("stages").size() == 2);
  const json& second = it.at("stages").at(1);
  CHECK(second.at("layers") == json({"node-c", "node-d"}));
  CHECK(near(second.at("computing_seconds"), 6e-3));
  CHECK(near(second.at("received_bytes"), 125e3));
  CHECK(near(second.at("transfer_seconds"), 2e-3));
  CHECK(near(second.at("parameters_bytes"), 250e3));
  // One mini-batch is computed and none waits; in the first stage one waits for its backward pass.
  CHECK(near(second.at("memory_bytes"), 500e3));
  CHECK(near(it.at("stages").at(0).at("memory_bytes"), 1000e3));
  CHECK(near(it.at("planned_seconds"), 6e-3));
  CHECK(near(it.at("planned_over_one_device"), 2));
  // The transfer of 1 ms each way makes the first stage wait: its two mini-batches in flight need 14 ms.
  CHECK(near(it.at("scheduled_seconds"), 7e-3));
  CHECK(near(it.at("bubble"), 1 - 6.0 / 7));
}

TEST_CASE("the bubble of equal stages without transfers is that of the formula") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const json it = run_json(
        plan_of(folder.file("even.txt"), {"--replicas", "1-1-1-1", "--pipeline", schedule, "--micro-batches",
                                          "8", "--bandwidth", "1000000Gbit/s", "--json"}));
    CHECK(std::abs(it.at("bubble").get<double>() - 3.0 / 11) < 1e-5);
    CHECK(std::abs(it.at("scheduled_seconds").get<double>() - 33e-3) < 1e-6);
    CHECK(near(it.at("planned_seconds"), 24e-3));
    const bool gpipe = std::string(schedule) == "gpipe";
    CHECK(it.at("stages").at(0).at("micro_batches_in_flight") == (gpipe ? 8 : 4));
    // With a flush a device keeps its parameters once.
    CHECK(near(it.at("stages").at(0).at("memory_bytes"), (gpipe ? 9 : 5) * 125e3));
    CHECK(near(it.at("stages").at(3).at("memory_bytes"), (gpipe ? 9 : 2) * 125e3));
  }
  const json whole =
      run_json(plan_of(folder.file("even.txt"), {"--devices", "4", "--pipeline", "layer-wise", "--json"}));
  CHECK(whole.at("stages").size() == 4);
  CHECK(near(whole.at("bubble"), 1 - 12.0 / (4 * (12 + 6))));
}

TEST_CASE("replicas synchronize once for each update, and share its micro-batches equally") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  Words words = plan_of(folder.file("even.txt"), {"--replicas", "3", "--pipeline", "1f1b", "--json"});
  // 8 micro-batches of 12 ms become 9, three for each replica. To average 500 kB takes 10.67 ms, of which a
  // backward pass hides 8.
  const json it = run_json(words);
  CHECK(it.at("micro_batches") == 9);
  CHECK(near(it.at("stages").at(0).at("synchronization_seconds"), 32e-3 / 3));
  CHECK(near(it.at("planned_seconds"), 36e-3));
  CHECK(near(it.at("scheduled_seconds"), 36e-3 + 8e-3 / 3));
  CHECK(near(it.at("data_parallel_seconds"), 36e-3));
  CHECK(near(it.at("one_device_seconds"), 108e-3));
  words.push_back("--no-overlap");
  const json sum = run_json(words);
  CHECK(near(sum.at("planned_seconds"), 36e-3 + 32e-3 / 3));
  CHECK(near(sum.at("scheduled_seconds"), 36e-3 + 32e-3 / 3));
  words.pop_back();
  std::erase(words, "--json");
  const Outcome outcome = run(words);
  CHECK(contains(outcome.out, "9 micro-batches instead of 8"));
  CHECK(contains(outcome.out, "stage 1.3"));
}

TEST_CASE("racks, memory, and the published way to cost a plan") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  const std::string profile = folder.file("even.txt");
  const json racks =
      run_json(plan_of(profile, {"--racks", "2x2", "--bandwidth", "1000Gbit/s,1Mbit/s", "--json"}));
  CHECK(racks.at("devices") == 4);
  CHECK(racks.at("bandwidth_bits_per_second") == json({1e12, 1e6}));
  // Two mini-batches of a and b, and their parameters: 1 MB. With half of it, stages cannot be so large.
  const Words two = {"--replicas", "1-1", "--memory", "1000000", "--json"};
  CHECK(run_json(plan_of(profile, two)).at("stages").at(0).at("layers").size() == 2);
  const json less = run_json(plan_of(profile, {"--replicas", "1-1", "--memory", "800000", "--json"}));
  CHECK(less.at("stages").at(0).at("layers").size() == 1);
  // 1 kbit/s makes transfers last for hours, unless they are free.
  const Words slow = {"--replicas", "1-1", "--bandwidth", "1kbit/s", "--json"};
  CHECK(run_json(plan_of(profile, slow)).at("planned_seconds") > 1000);
  Words published = slow;
  published.push_back("--as-published");
  const json free = run_json(plan_of(profile, published));
  CHECK(near(free.at("planned_seconds"), 6e-3));
  CHECK(near(free.at("scheduled_seconds"), 6e-3));
  CHECK(free.at("computing_and_synchronization") == "sum without transfers");
}

TEST_CASE("plan measures a network, and shows its stages to people") {
  const Words words = {"plan",       "lenet", "--data",       "glyphs", "--devices",       "cpu:0,cpu:1",
                       "--replicas", "1-1",   "--batch-size", "16",     "--micro-batches", "4"};
  Words as_json = words;
  as_json.push_back("--json");
  const json it = run_json(as_json);
  CHECK(it.at("name") == "lenet");
  CHECK(it.at("measured").at("device") == "cpu");
  CHECK(it.at("measured").at("samples") == 4);
  double computing = 0, parameters = 0;
  std::size_t layers = 0;
  for (const json& stage : it.at("stages")) {
    computing += stage.at("computing_seconds").get<double>();
    parameters += stage.at("parameters_bytes").get<double>();
    layers += stage.at("layers").size();
  }
  const json model = run_json({"model", "show", "lenet", "--data", "glyphs", "--json"});
  CHECK(layers == model.at("layers").size());
  CHECK(parameters == 4 * model.at("parameters").get<double>());
  const double whole = it.at("measured").at("whole_seconds");
  CHECK(whole > 0);
  CHECK(std::isfinite(it.at("measured").at("by_layers_seconds").get<double>()));
  CHECK(std::abs(computing - whole) <= 1e-9 * whole);
  CHECK(it.at("scheduled_seconds") > 0);
  CHECK(!it.at("timeline").empty());

  const Outcome outcome = run(words);
  INFO(outcome.out);
  CHECK(outcome.exit_code == 0);
  for (const char* part :
       {"lenet on 2 devices with 1Gbit/s between them; 1f1b, 4 micro-batches of 4 samples", "measured on cpu",
        "synchronization", "slowest stage or transfer", "bubble: ", "stage 2", "0>", "0<"})
    CHECK(contains(outcome.out, part));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("stage ") && !line.starts_with("stage  ")) CHECK(line.size() <= 100);
}

TEST_CASE("plan --pipeline names the schedule, and so does its earlier name, with a warning") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  const auto plan = [&](Words words) {
    words.insert(words.end(), {"--replicas", "1-1", "--json"});
    return run(plan_of(folder.file("even.txt"), words));
  };
  const Outcome now = plan({"--pipeline", "gpipe"});
  CHECK(now.exit_code == 0);
  CHECK(json::parse(now.out).at("schedule") == "gpipe");
  CHECK(!contains(now.err, "--schedule"));
  for (const Words& earlier : {Words{"--schedule", "gpipe"}, Words{"--schedule=gpipe"}}) {
    const Outcome outcome = plan(earlier);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == now.out);
    CHECK(contains(outcome.err, "--schedule of `starling plan` is now called --pipeline"));
  }
  CHECK(plan({"--schedule", "gpipe", "--pipeline", "1f1b"}).exit_code == 2);
  CHECK(!contains(run({"plan", "--help"}).out, "--schedule"));
}

TEST_CASE("plan --memory prints no stage that takes more than it was given") {
  const Words words = {"plan",         "lenet", "--data", "glyphs",     "--devices", "3",
                       "--batch-size", "32",    "--json", "--pipeline", "gpipe"};
  const auto most = [](const json& it) {
    double largest = 0;
    for (const json& stage : it.at("stages"))
      largest = std::max(largest, stage.at("memory_bytes").get<double>());
    return largest;
  };
  const double free = most(run_json(words));
  std::size_t planned = 0;
  for (const double part : {2.0, 1.0, 0.9, 0.7, 0.3}) {
    const auto bound = static_cast<std::uint64_t>(std::ceil(part * free));
    Words bounded = words;
    bounded.insert(bounded.end(), {"--memory", std::to_string(bound)});
    const Outcome outcome = run(bounded);
    INFO(bound << " bytes: " << outcome.err);
    if (outcome.exit_code == 0) {
      ++planned;
      CHECK(most(json::parse(outcome.out)) <= static_cast<double>(bound));
    } else {
      CHECK(contains(outcome.err, "memory"));
    }
  }
  CHECK(planned > 0);
}

TEST_CASE("plan --chart draws the schedule") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  const auto written = [&](const std::string& name) {
    const Words words = {"--replicas",      "1-1", "--pipeline", "1f1b",
                         "--micro-batches", "4",   "--chart",    folder.file(name)};
    const Outcome outcome = run(plan_of(folder.file("even.txt"), words));
    CHECK(outcome.exit_code == 0);
    CHECK(contains(outcome.out, "chart: " + folder.file(name)));
    std::ifstream file(folder.file(name));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string svg = written("plan.svg");
  CHECK(contains(svg, "<title>even.txt, 1f1b with 4 micro-batches: bubble "));
  CHECK(contains(svg, "stage 2: idle"));
  CHECK(written("plan.png").substr(1, 3) == "PNG");
  CHECK(written("plan.pdf").starts_with("%PDF-"));
}

TEST_CASE("wrong input of plan is refused in one line") {
  const TemporaryFolder folder;
  folder.write("even.txt", even_profile());
  folder.write("damaged.txt", "node1 -- Linear -- forward_compute_time=x\n");
  const std::string even = folder.file("even.txt");
  for (const auto& [words, part] : std::vector<std::pair<Words, std::string>>{
           {{"plan"}, "MODEL is missing: a name of `model list` or a .toml file; or give --profile"},
           {{"plan", "lenet", "--profile", even}, "MODEL and --profile exclude each other"},
           {plan_of(even, {"--devices", "2", "--chart", folder.file("plan.gif")}),
            "does not end in .svg, .pdf or .png"},
           {plan_of(even, {"--devices", "2", "--chart", folder.file("no/plan.svg")}), "--chart: "},
           {{"plan", "lenot", "--devices", "2"}, "lenot"},
           {{"plan", "lenet"}, "--devices is missing"},
           {{"plan", "lenet", "--devices", "0"}, "--devices: '0' is not a number from 1 to 1024"},
           {{"plan", "lenet", "--devices", "cpu:0,cpu:0"}, "--devices: 'cpu:0,cpu:0' is neither"},
           {{"plan", "lenet", "--devices", "cpu:0,cuda:0"}, "a list of different devices of one kind"},
           {{"plan", "lenet", "--devices", "cpu:0,"}, "--devices: 'cpu:0,' is neither"},
           {{"plan", "lenet", "--devices", "cuda:998,cuda:999"}, "--devices: "},
           {{"plan", "lenet", "--devices", "2", "--pipeline", "zigzag"},
            "--pipeline: 'zigzag' is unknown; expected gpipe, 1f1b, layer-wise or pipedream"},
           {{"plan", "lenet", "--devices", "2", "--bandwidth", "0"}, "--bandwidth: '0' is not a bandwidth"},
           {{"plan", "lenet", "--devices", "2", "--bandwidth", "0bit/s"}, "--bandwidth: '0bit/s' is not"},
           {{"plan", "lenet", "--devices", "2", "--bandwidth", "1Gbit/s,1Gbit/s"}, "has too many rates"},
           {{"plan", "lenet", "--devices", "2", "--memory", "many"},
            "--memory: 'many' is not a size from 1 to"},
           {{"plan", "lenet", "--devices", "2", "--batch-size", "10", "--micro-batches", "3"},
            "--micro-batches: 10 samples (--batch-size) cannot be divided into 3"},
           {{"plan", "lenet", "--devices", "2", "--pipeline", "layer-wise", "--micro-batches", "2"},
            "--micro-batches: the schedule layer-wise does not divide a mini-batch"},
           {plan_of(even, {"--replicas", "2-1", "--pipeline", "layer-wise"}), "--replicas: the schedule"},
           {plan_of(even, {"--devices", "2", "--batch-size", "8"}),
            "--batch-size has no effect with --profile"},
           {plan_of(even, {"--devices", "2", "--replicas", "2-0"}), "--replicas: '2-0' does not give each"},
           {plan_of(even, {"--devices", "2", "--replicas", "2-1"}),
            "the stages 2-1 need 3 devices, and there are 2"},
           {plan_of(even, {"--replicas", "1-1-1-1-1"}), "at most 4 stages, but 5 are requested"},
           {plan_of(even, {"--devices", "2", "--memory", "1"}), "no plan fits into 1 bytes of memory"},
           {plan_of(even, {"--racks", "2"}), "--racks: '2' is not RACKSxDEVICES"},
           {plan_of(even, {"--racks", "2x2", "--devices", "3"}),
            "--racks: 2x2 has 4 devices, and --devices 3"},
           {plan_of(even, {"--racks", "2x2", "--replicas", "4"}),
            "--replicas cannot be combined with --racks"},
           {plan_of(even, {"--devices", "2", "--as-published", "--no-overlap"}), "--no-overlap cannot be"},
           {plan_of(folder.file("gone.txt"), {"--devices", "2"}), "gone.txt"},
           {plan_of(folder.path(), {"--devices", "2"}), "--profile: "},
           {plan_of(folder.file("damaged.txt"), {"--devices", "2"}), "damaged.txt: "}}) {
    const Outcome outcome = run(words);
    CAPTURE(part, outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(contains(outcome.err, part));
  }
}

}  // namespace
}  // namespace starling::cli_tests
