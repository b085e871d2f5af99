// Warnings about what would be ignored in silence: settings without an effect, and unknown variables.
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

Outcome simulate(const TemporaryFolder& folder, const Words& more, const Environment& environment = {}) {
  Words words = {"simulate", "--peers", "2",     "--model",          "softmax",
                 "--steps",  "2",       "--out", folder.file("run"), "--force"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run(words, environment);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  return outcome;
}

TEST_CASE("a setting without an effect gives one warning that says what it needs", "[figures]") {
  const TemporaryFolder folder;
  struct Case {
    Words flags;
    std::string said;
  };
  for (const Case& idle : std::vector<Case>{
           {{"--clip", "0.1"}, "--clip has no effect with --rule pairwise; it needs --rule clipped"},
           {{"--staleness", "4"}, "--staleness has no effect with --rule pairwise; it needs --rule ssp"},
           {{"--servers", "2"},
            "--servers has no effect with --rule pairwise; it needs --rule parameter-server or ssp"},
           {{"--top-k", "0.1"}, "--top-k has no effect with --payload f32; it needs --payload top-k"},
           {{"--beta2", "0.5"}, "--beta2 has no effect with --optimizer sgd; it needs --optimizer adamw"},
           {{"--beta1", "0.5"}, "--beta1 has no effect with --optimizer sgd; it needs --optimizer adamw"},
           {{"--epsilon", "0.5"}, "--epsilon has no effect with --optimizer sgd; it needs --optimizer adamw"},
           {{"--optimizer", "adamw", "--beta1", "0.5", "--momentum", "0.5"},
            "--momentum has no effect with --beta1 0.5"},
           {{"--final-rate", "0.5"},
            "--final-rate has no effect with --schedule constant; it needs --schedule cosine"},
           {{"--average-every", "4"}, "--average-every has no effect without --devices"},
           {{"--rule", "all-reduce", "--every", "4 steps"}, "--every has no effect with --rule all-reduce"},
           {{"--rule", "ssp", "--topology", "ring"}, "--topology has no effect with --rule ssp"},
           {{"--set", "gossip.clip=0.1"}, "--set gossip.clip has no effect with --rule pairwise"},
       }) {
    CAPTURE(idle.said);
    const Outcome outcome = simulate(folder, idle.flags);
    INFO(outcome.err);
    CHECK(is_one_line(outcome.err));
    CHECK(contains(outcome.err, "warning " + idle.said));
  }
}

TEST_CASE("a setting with an effect gives no warning") {
  const TemporaryFolder folder;
  for (const Words& flags : std::vector<Words>{{"--rule", "clipped", "--clip", "0.1"},
                                               {"--rule", "ssp", "--staleness", "4"},
                                               {"--payload", "top-k", "--top-k", "0.1"},
                                               {"--rule", "all-reduce"},
                                               {"--rule", "none"}})
    CHECK(simulate(folder, flags).err.empty());
}

TEST_CASE("a sweep warns of settings that have no effect in any of its experiments") {
  const TemporaryFolder folder;
  const auto dry_run = [&](const std::string& rules) {
    folder.write("sweep.toml",
                 "peers = 2\n[model]\nname = \"softmax\"\n[training]\nsteps = 2\n"
                 "[gossip]\nclip = 0.1\n[sweep]\n\"gossip.rule\" = [" +
                     rules + "]\n\"gossip.staleness\" = [1, 2]\n");
    return run({"sweep", folder.file("sweep.toml"), "--dry-run", "--out", folder.file("runs")}).err;
  };
  const std::string idle = dry_run("\"pairwise\", \"none\"");
  CHECK(contains(idle, "sweep.toml: gossip.clip has no effect"));
  CHECK(contains(idle, "sweep.toml: the list of gossip.staleness has no effect"));
  CHECK_FALSE(contains(dry_run("\"pairwise\", \"clipped\""), "gossip.clip"));
}

TEST_CASE("variables and files are sources of settings without an effect, and a repeated run is none") {
  const TemporaryFolder folder;
  CHECK(contains(simulate(folder, {}, {{"STARLING_CLIP", "0.1"}}).err,
                 "STARLING_CLIP has no effect with --rule pairwise"));
  folder.write("clip.toml", "[gossip]\nclip = 0.1\n");
  CHECK(contains(simulate(folder, {folder.file("clip.toml")}).err,
                 "clip.toml: gossip.clip has no effect with --rule pairwise"));
  CHECK(simulate(folder, {folder.file("clip.toml"), "--rule", "clipped"}).err.empty());
  // The file of a run has all settings.
  CHECK(simulate(folder, {}).err.empty());
  folder.write("again.toml", read_whole(folder.file("run/experiment.toml")));
  CHECK(simulate(folder, {folder.file("again.toml")}).err.empty());
}

TEST_CASE("a peer warns of its settings without an effect") {
  Program peer({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--steps", "2", "--clip", "0.1"});
  const Outcome outcome = peer.finish();
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "--clip has no effect with --rule pairwise; it needs --rule clipped"));
}

TEST_CASE("an unknown variable gives a warning with a suggestion") {
  const auto warned = [](const std::string& variable) {
    const Outcome outcome = run({"model", "list"}, {{variable, "7"}});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == run({"model", "list"}).out);
    return outcome.err;
  };
  const std::string said = warned("STARLING_LERNING_RATE");
  CHECK(is_one_line(said));
  CHECK(contains(said,
                 "STARLING_LERNING_RATE names no setting and is ignored; did you mean "
                 "STARLING_LEARNING_RATE?"));
  CHECK(contains(warned("STARLING_ADDRESS"), "STARLING_ADDRESS names no setting and is ignored\n"));
  for (const char* known : {"STARLING_DATA", "STARLING_AT", "STARLING_KEY", "STARLING_TOKEN_FILE",
                            "STARLING_LEARNING_RATE", "STARLING_LOG_FORMATS"}) {
    CAPTURE(known);
    const bool misspelled = std::string(known) == "STARLING_LOG_FORMATS";
    CHECK(contains(warned(known), "did you mean STARLING_LOG_FORMAT?") == misspelled);
    if (!misspelled) CHECK(warned(known).empty());
  }
  // Kubernetes sets these for a service named starling.
  CHECK(warned("STARLING_PORT_7100_TCP").empty());
  CHECK(warned("STARLING_SERVICE_HOST").empty());
}

TEST_CASE("a percentage as target accuracy gives the fraction as a suggestion") {
  const TemporaryFolder folder;
  for (const char* percent : {"76", "76%", "76 %"}) {
    const Outcome outcome = run({"simulate", "--target-accuracy", percent, "--out", folder.file("run")});
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(contains(outcome.err, "did you mean 0.76?"));
  }
  CHECK_FALSE(contains(run({"simulate", "--target-accuracy", "760"}).err, "did you mean"));
}

}  // namespace
}  // namespace starling::cli_tests
