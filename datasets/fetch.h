// Downloads a published data set into a folder. Each file is written to FILE.part, which a later attempt or a
// later process resumes, and gets its name only after its size and SHA-256 are verified.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "datasets/published.h"

namespace starling::datasets {

struct FetchOptions {
  std::string base;                          // replaces the set's own address unless empty
  std::string into;                          // the set's folder, created if necessary
  int attempts = 5;                          // to download a file, each resuming the one before
  Duration pause = std::chrono::seconds(1);  // between them
  // Called repeatedly with the number of bytes of a file that are present.
  std::function<void(const PublishedFile& file, std::uint64_t bytes)> progress = {};
};

struct Fetched {
  std::uint64_t files = 0;          // of the set
  std::uint64_t already_there = 0;  // of these, verified
  std::uint64_t bytes = 0;          // downloaded
};

// The Error names the file, what failed, and what to do.
Result<Fetched> fetch(const PublishedSet& set, const FetchOptions& options);

}  // namespace starling::datasets
