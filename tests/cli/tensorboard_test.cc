// Event files for TensorBoard, read by a program that implements only the published formats.
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

TEST_CASE("a peer writes loss, progress and accuracy for TensorBoard") {
  TemporaryFolder folder;
  const Outcome outcome = run({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--epochs", "2",
                               "--name", "p0", "--tensorboard", folder.file("board"), "--pace", "1ms"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("board/p0"))) file = entry.path();
  REQUIRE(file.find("events.out.tfevents.") != std::string::npos);
  const std::string command = std::string("python3 ") + STARLING_SOURCE_DIR +
                              "/tests/runs/read_tensorboard.py '" + file + "' > '" + folder.file("read") +
                              "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string text = read_whole(folder.file("read"));
  for (const char* tag : {" loss ", " learning_rate 0.05", " swarm/epochs ", " swarm/members 1"}) {
    INFO(text);
    CHECK(text.find(tag) != std::string::npos);
  }

  const Outcome staged =
      run({"peer", "--listen", "127.0.0.1:0", "--model", "lenet", "--steps", "40", "--devices", "cpu:0,cpu:1",
           "--split", "stages", "--name", "p0", "--tensorboard", folder.file("stages")});
  INFO(staged.err);
  REQUIRE(staged.exit_code == 0);
  CHECK(staged.err.find("has figures of an earlier run") == std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("stages/p0"))) file = entry.path();
  CHECK(read_whole(file).find("pipeline/busy/stage_2") != std::string::npos);

  const Outcome again = run({"peer", "--listen", "127.0.0.1:0", "--model", "softmax", "--steps", "2",
                             "--name", "p0", "--tensorboard", folder.file("board")});
  CHECK(again.exit_code == 0);
  CHECK(again.err.find("--tensorboard: " + folder.file("board/p0") + " has figures of an earlier run") !=
        std::string::npos);

  folder.write("taken", "x");
  const Outcome refused =
      run({"peer", "--listen", "127.0.0.1:0", "--tensorboard", folder.file("taken/board")});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("--tensorboard: cannot make the folder") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests
