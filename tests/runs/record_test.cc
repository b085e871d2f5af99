#include "training/runs/records/record.h"

#include <sys/resource.h>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/near.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/control.h"
#include "training/runs/records/foreign_text.h"
#include "training/runs/records/json.h"

namespace starling::training {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

TEST_CASE("a summary is one line of JSON with the documented keys in their order") {
  Summary summary;
  summary.name = "r";
  summary.mode = "swarm";
  summary.seed = std::numeric_limits<std::uint64_t>::max();
  summary.accuracy = 0.984;
  summary.loss = std::numeric_limits<double>::quiet_NaN();
  summary.exchanges = {412, 1, 2, 3, {{"not_finite", 4}}};
  for (const std::uint64_t steps : {0, 0, 3, 4, 5}) summary.staleness.count(steps);
  PeerRecord finished, crashed;
  finished.name = "p0";
  finished.steps = 470;
  finished.samples = 30080;
  finished.accuracy = 0.983;
  finished.exchanges = 206;
  finished.state = "finished";
  crashed.name = "p1\n\"\xff";
  crashed.state = "crashed";
  summary.per_peer = {finished, crashed};
  const std::string text = to_json(summary);
  REQUIRE(!contains(text, "\n"));
  const Json json = Json::parse(text);
  std::vector<std::string> keys, peer_keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  REQUIRE(keys == words("name mode interrupted epochs epochs_asked seed model parameters data peers "
                        "topology spectral_gap rule payload made_from "
                        "start_seconds seconds wall_seconds wall_training_seconds samples samples_per_second "
                        "tokens perplexity "
                        "bits_per_token bits_per_character accuracy loss "
                        "accuracy_min accuracy_max consensus_distance consensus_distance_before_settling "
                        "seconds_to_target exchanges bytes_sent staleness per_peer"));
  for (const auto& [key, value] : json["per_peer"][0].items()) peer_keys.push_back(key);
  REQUIRE(peer_keys == std::vector<std::string>{"name", "device", "precision", "steps", "samples", "accuracy",
                                                "exchanges", "slow", "split", "pipeline", "state",
                                                "own_data"});
  REQUIRE(json["seed"].get<std::uint64_t>() == summary.seed);
  REQUIRE(json["accuracy"] == 0.984);
  REQUIRE(json["loss"].is_null());
  REQUIRE(json["seconds_to_target"].is_null());
  REQUIRE(
      json["exchanges"].dump() ==
      R"({"completed":412,"aborted":1,"rejected":2,"half_applied_chunks":3,"refused_chunks":{"not_finite":4}})");
  REQUIRE(json["staleness"].dump() == R"({"0":2,"1":0,"2":0,"3-4":2,"5-8":1})");
  REQUIRE(json["per_peer"][1]["accuracy"].is_null());

  summary.trace_hash = "00ff";
  REQUIRE(Json::parse(to_json(summary))["trace_hash"] == "00ff");
}

TEST_CASE("a summary and a report have the stages of a peer, and read them back") {
  PipelineRecord pipeline{.schedule = "1f1b", .micro_batches = 4, .measured = true, .steps = 10};
  pipeline.step_seconds = 0.5;
  pipeline.bubble = 0.25;
  pipeline.stages = {{.name = "1", .layers = "conv1 to pool2", .device = "cpu:0", .busy_seconds = 5},
                     {.name = "2", .layers = "fc1", .device = "cpu:1", .waiting_seconds = 2.5, .idle = 0.5}};
  pipeline.stages[1].versions = 3;
  pipeline.passes = {{.stage = 2, .pass = "forward", .micro_batch = 3, .begin_seconds = 1, .end_seconds = 2}};
  Summary summary;
  PeerRecord& peer = summary.per_peer.emplace_back();
  peer.split = "2 stages";
  peer.pipeline = pipeline;
  summary.data_description = R"({"kind":"rows","classes":3})";
  summary.made_from = {"0.3.0", "avx2", {{"data.source", "00000000000000ff"}}};
  const auto read = parse_summary(to_json(summary));
  REQUIRE(read.ok());
  REQUIRE(read->per_peer.at(0).pipeline.has_value());
  CHECK(read->per_peer[0].split == peer.split);
  CHECK(read->made_from == summary.made_from);
  CHECK(read->per_peer[0].pipeline->stages.at(1).versions == 3);
  CHECK(read->per_peer[0].pipeline->bubble == 0.25);
  CHECK(read->per_peer[0].pipeline->passes.empty());
  CHECK(to_json(*read) == to_json(summary));

  PeerReport report;
  CHECK(to_json(report).find("pipeline") == std::string::npos);
  static_cast<DeviceSharing&>(report) = peer;
  const auto told = parse_report(to_json(report));
  REQUIRE(told.ok());
  CHECK(told->pipeline->stages.at(0).busy_seconds == 5);
  CHECK(told->pipeline->passes.at(0).end_seconds == 2);
  CHECK(to_json(*told) == to_json(report));
}

TEST_CASE("counts of exchanges add up, and rejected chunks are counted by reason") {
  ExchangeTotals sum{1, 2, 3, 4, {{"late", 5}}};
  sum += {10, 20, 30, 40, {{"late", 50}, {"weight", 60}}};
  CHECK(sum.completed == 11);
  CHECK(sum.aborted == 22);
  CHECK(sum.rejected == 33);
  CHECK(sum.half_applied_chunks == 44);
  CHECK(sum.refused_chunks == std::map<std::string, std::uint64_t>{{"late", 55}, {"weight", 60}});
}

TEST_CASE("a metrics line is one JSON object, with null for missing measurements") {
  MetricsLine line;
  line.seconds = 1.5;
  line.peer = "p3";
  line.steps = 4;
  line.samples = 256;
  line.loss = 0.25;
  const std::string text = to_json(line);
  REQUIRE(text ==
          R"({"seconds":1.5,"peer":"p3","steps":4,"samples":256,"exchanges":0,"bytes_sent":0,"loss":0.25,)"
          R"("accuracy":null,"consensus_distance":null,"learning_rate":null})");
}

TEST_CASE("the consensus distance is the spread of the replicas divided by the norm of their mean") {
  std::vector<float> mean;
  REQUIRE(consensus(views_of({{3, 4}}), mean) == 0);
  REQUIRE(mean == std::vector<float>{3, 4});
  REQUIRE(near(consensus(views_of({{0, 2}, {4, 2}}), mean), 2 / std::sqrt(8.0), 1e-12));
  REQUIRE(mean == std::vector<float>{2, 2});
  REQUIRE(consensus(views_of({{1, 0}, {-1, 0}}), mean) == std::numeric_limits<double>::infinity());
  REQUIRE(consensus(views_of({{0, 0}, {0, 0}}), mean) == 0);

  Random random(1);
  std::vector<std::vector<float>> replicas(5, std::vector<float>(3000));
  for (auto& replica : replicas) {
    for (auto& x : replica) x = static_cast<float>(1 + random.normal());
  }
  double spread = 0, size = 0;
  for (std::size_t j = 0; j < 3000; ++j) {
    double m = 0;
    for (const auto& replica : replicas) m += static_cast<double>(replica[j]) / 5;
    size += m * m;
    for (const auto& replica : replicas) spread += std::pow(static_cast<double>(replica[j]) - m, 2) / 5;
  }
  REQUIRE(near(consensus(views_of(replicas), mean), std::sqrt(spread / size), 0, 1e-12));
}

TEST_CASE("a run's folder is made with its parents, and another run's results in it are an error") {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs/a-1");
  const auto first = RunFolder::create(path, false);
  REQUIRE(first.ok());
  REQUIRE(RunFolder::create(path, false).ok());  // no results yet
  REQUIRE(first->write("notes.txt", "n").ok());
  REQUIRE(first->write("summary.json", "{}").ok());
  const auto second = RunFolder::create(path, false);
  REQUIRE(!second.ok());
  REQUIRE(contains(second.error().message, path));
  REQUIRE(contains(second.error().message, "--force"));
  REQUIRE(contents(first->file("summary.json")) == "{}");
  REQUIRE(RunFolder::create(path, true).ok());
  REQUIRE(!std::filesystem::exists(first->file("summary.json")));
  REQUIRE(std::filesystem::exists(first->file("notes.txt")));

  folder.write("file", "");
  REQUIRE(contains(RunFolder::create(folder.file("file"), true).error().message, "a file has that name"));
  REQUIRE(!RunFolder::create(folder.file("file/below"), true).ok());
}

TEST_CASE("a file of a run is replaced as a whole, or stays unchanged on failure") {
  const TemporaryFolder folder;
  const auto run = RunFolder::create(folder.file("run"), false);
  REQUIRE(run.ok());
  REQUIRE(run->write("a.json", "old").ok());
  const std::string large(3'000'000, 'x');
  REQUIRE(run->write("a.json", large).ok());
  REQUIRE(contents(run->file("a.json")) == large);

  std::filesystem::create_directory(run->file("b.json"));
  const Status status = run->write("b.json", "x");
  REQUIRE(!status.ok());
  REQUIRE(contains(status.error().message, run->file("b.json")));
  REQUIRE(contains(status.error().message, "folder"));
  REQUIRE(contains(run->write("absent/c.json", "x").error().message, "No such file or directory"));

  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run->path())) entries += entry.exists();
  REQUIRE(entries == 2);
}

TEST_CASE("an interrupted write leaves the old file and returns the reason") {
  const TemporaryFolder folder;
  const auto run = RunFolder::create(folder.file("run"), false);
  REQUIRE(run.ok());
  REQUIRE(run->write("a.json", "old").ok());
  // A file size limit acts like a full disk: the first part of the write succeeds.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status status = run->write("a.json", std::string(100'000, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE(!status.ok());
  REQUIRE(status.error().message == "cannot write " + run->file("a.json") + ": File too large");
  REQUIRE(contents(run->file("a.json")) == "old");
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run->path())) entries += entry.exists();
  REQUIRE(entries == 1);
}

TEST_CASE("JSON of others reads as the library reads it, in its order") {
  for (const char* text :
       {"{}", "[]", "null", "-3", "18446744073709551615", "0.1", "1e300", "\"\\u00e9\\n\"",
        " [ 1 , [ ] , { } ] ", R"({"b": 1, "a": {"z": [true, false, null, -1.5], "y": "t"}, "": []})"}) {
    CAPTURE(text);
    const auto read = parse_json(text, {});
    REQUIRE(read.ok());
    CHECK(*read == Json::parse(text));
    CHECK(read->dump() == Json::parse(text).dump());
  }
  for (const char* text : {"", "{", "{\"a\"}", "[1,]", "1 2", "nan", "1e999", "\"\xff\""}) {
    CAPTURE(text);
    CHECK(parse_json(text, {}).error().message == "is not JSON");
    CHECK(parse_json(text).is_discarded());
  }
}

TEST_CASE("JSON of others is read up to its first key too many, key twice or bracket too deep") {
  const auto why = [](const std::string& text) {
    return parse_json(text, {.keys = 3, .depth = 2}).error().message;
  };
  CHECK(parse_json(R"({"a":{"a":1,"b":2,"c":3},"b":0,"c":[]})", {.keys = 3, .depth = 2}).ok());
  // What follows is no JSON, and is not read any more.
  CHECK(why(R"({"a":1,"b":1,"c":1,"d" ...)") == "has more than 3 keys in one object");
  CHECK(why("[[[ ...") == "is nested too deeply");
  CHECK(why(R"({"b":{"a":1,"c":2,"a":3} ...)") == "has the key 'a' twice");
  std::string keys = "{\"0\":0";
  for (int i = 1; i < 9000; ++i) keys += ",\"" + std::to_string(i) + "\":0";  // of a body of 64 KiB
  CHECK(parse_json(keys + "}").is_discarded());
  CHECK(parse_json(std::string(1'000'000, '[')).is_discarded());
}

TEST_CASE("text of others is shown without characters that change a terminal or a table") {
  CHECK(fit_to_show("p0 \xc3\xa9\xe2\x82\xac", false) == "p0 \xc3\xa9\xe2\x82\xac");
  const std::string bad = "\xef\xbf\xbd";
  CHECK(fit_to_show("a\x1b]0;b\x07", true) == "a" + bad + "]0;b" + bad);
  CHECK(fit_to_show("a\xc2\x9b"
                    "2J",
                    true) == "a" + bad + "2J");  // CSI of C1
  CHECK(fit_to_show("a\xe2\x80\xae"
                    "b",
                    false) == "a" + bad + "b");                        // right to left
  CHECK(fit_to_show("a\xff\xe2\x82", true) == "a" + bad + bad + bad);  // not UTF-8
  CHECK(fit_to_show("a\nb\tc\r", true) == "a\nb\tc" + bad);
  CHECK(fit_to_show("a\nb\tc", false) == "a" + bad + "b" + bad + "c");
  CHECK(begun_character("ab") == 0);
  CHECK(begun_character("a\xe2\x82") == 2);
  CHECK(begun_character("a\xe2\x82\xac") == 0);
}

}  // namespace starling::training
