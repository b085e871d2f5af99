// The messages for a missing or unusable CUDA back end.

#include "kernels/cuda_module.h"

#include <filesystem>
#include <fstream>

#include "tests/catch.h"

namespace starling::kernels {

namespace {

// A file that is removed with the object.
struct File {
  explicit File(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("starling-" + name)) {
    std::ofstream(path) << "no library";
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::filesystem::path path;
};

bool says(const std::vector<std::string>& places, const std::string& words) {
  const auto module = load_cuda_module(places);
  REQUIRE(!module.ok());
  CAPTURE(module.error().message);
  return module.error().message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a missing CUDA back end is reported with all searched paths") {
  REQUIRE(says({"/nowhere/a.so", "/nowhere/b.so"}, "not installed at /nowhere/a.so or /nowhere/b.so "));
}

TEST_CASE("a CUDA back end that cannot be loaded is reported with the loader's message") {
  const File file("cuda-module-test.so");
  REQUIRE(says({"/nowhere/a.so", file.path},
               "the CUDA back end in " + file.path.string() + " cannot be loaded: "));
}

TEST_CASE("a CUDA back end of another build is rejected") {
  REQUIRE(says({STARLING_MODULE_OF_ANOTHER_BUILD}, "belongs to another build of Starling"));
}

TEST_CASE("a CUDA back end is searched next to the program and in its lib folder") {
  const auto places = cuda_module_places();
  if (std::getenv("STARLING_CUDA_MODULE") != nullptr) {
    REQUIRE(places == std::vector<std::string>{std::getenv("STARLING_CUDA_MODULE")});
    return;
  }
  REQUIRE(places.size() == 2);
  REQUIRE(std::filesystem::path(places[0]).filename() == "libstarling_cuda.so");
  REQUIRE(places[1].find("/lib/starling/libstarling_cuda.so") != std::string::npos);
}

}  // namespace starling::kernels
