// Fetches a published data set into a folder: each file goes into FILE.part, goes on there after a break (in
// this process or a later one), is held against its size and SHA-256, and only then has its name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "datasets/published.h"

namespace starling::datasets {

struct FetchOptions {
  std::string base;  // another address than the set's own; empty: that
  std::string into;  // the set's folder; is made where it is not there
  int attempts = 5;  // at going on after a broken connection, each time with something new or not
  Duration pause = std::chrono::seconds(1);  // before each of these
  // Called now and then with how much of a file is there.
  std::function<void(const PublishedFile& file, std::uint64_t bytes)> progress = {};
};

struct Fetched {
  std::uint64_t files = 0;          // of the set
  std::uint64_t already_there = 0;  // of these, as they should be
  std::uint64_t bytes = 0;          // that came over the network
};

// The Error is one sentence: which file, what happened, and what to do.
Result<Fetched> fetch(const PublishedSet& set, const FetchOptions& options);

}  // namespace starling::datasets
