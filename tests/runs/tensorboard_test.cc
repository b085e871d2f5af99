// TensorBoard's event files, read by a program that uses only the published formats.
#include "training/runs/records/tensorboard.h"

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"

namespace starling::training {
namespace {

TEST_CASE("checksums are Castagnoli's") {
  // RFC 3720, appendix B.4, and the usual check value.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  CHECK(crc32c("123456789") == 0xe3069283U);
}

TEST_CASE("an event file has what TensorBoard reads: version, times, steps, names and values") {
  TemporaryFolder folder;
  auto board = TensorBoard::open(folder.path() + "/deep/board");
  REQUIRE(board.ok());
  REQUIRE((*board)->add(1700000000.25, 0, {{"loss", 2.5}, {"accuracy", 0.125}}).ok());
  REQUIRE((*board)->add(1700000001.5, 300, {{"loss", -1e-3}}).ok());
  REQUIRE((*board)->add(1700000002, 5'000'000'000, {}).ok());
  const std::string out = folder.file("read.txt");
  const std::string command = std::string("python3 ") + STARLING_SOURCE_DIR +
                              "/tests/runs/read_tensorboard.py '" + (*board)->path() + "' > '" + out + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream read(out);
  const std::string text{std::istreambuf_iterator<char>(read), {}};
  CHECK(text ==
        "version brain.Event:2\n"
        "1700000000.25 0 loss 2.5\n1700000000.25 0 accuracy 0.125\n"
        "1700000001.5 300 loss -0.001\n"
        "1700000002.0 5000000000\n");
}

TEST_CASE("a folder that cannot be made, and a full disk, are errors with a message") {
  TemporaryFolder folder;
  folder.write("file", "x");
  const auto none = TensorBoard::open(folder.file("file") + "/board");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.find("cannot make the folder") == 0);
}

}  // namespace
}  // namespace starling::training
