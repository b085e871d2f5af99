// Folders of invented runs, for tests of reports.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/catch.h"
#include "training/runs/records/record.h"

namespace starling::lab {

// A temporary folder.
struct Folders {
  std::string path;
  Folders() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-report-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folders() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;

  std::string write(const std::string& run, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(path + "/" + run);
    std::ofstream(path + "/" + run + "/" + file) << text;
    return path + "/" + run;
  }
  std::string summary(const std::string& run, std::uint64_t seed, std::optional<double> to_target,
                      const std::string& topology = "ring", const std::string& mode = "simulate",
                      double start_seconds = 0) const {
    training::Summary summary;
    summary.name = "made-up";
    summary.mode = mode;
    summary.seed = seed;
    summary.model = "softmax";
    summary.data = "glyphs";
    summary.peers = 4;
    summary.topology = topology;
    summary.rule = "pairwise";
    summary.payload = "f32";
    summary.start_seconds = start_seconds;
    summary.seconds = 20;
    summary.samples = 1000;
    summary.accuracy = 0.9;
    summary.bytes_sent = 4000;
    summary.consensus_distance = 0.02;
    summary.consensus_distance_before_settling = 0.4;
    summary.seconds_to_target = to_target;
    for (const std::uint64_t steps : {0, 0, 1, 4}) summary.staleness.count(steps);
    training::PeerRecord peer;
    peer.name = "p0";
    peer.steps = 10;
    peer.state = "finished";
    summary.per_peer = {peer};
    write(run, "experiment.toml",
          "name = \"made-up\"\nseed = " + std::to_string(seed) +
              "\n\n[training]\ntarget_accuracy = 0.85\n\n[gossip]\ntopology = '" + topology + "'\n");
    return write(run, "summary.json", training::to_json(summary) + "\n");
  }
};

}  // namespace starling::lab
