// fuzz_seeds FOLDER: writes the initial inputs of all targets, for scripts/fuzz.
#include <cstdio>

#include "tests/fuzz/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  starling::fuzz::write_seeds(argv[1]);
  return 0;
}
