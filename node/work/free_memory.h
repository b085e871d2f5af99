// How much memory this process may still take: the least of what the machine, its control groups (cgroups, as
// of containers) and its own limit (ulimit -v) leave.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace starling::node {

// In bytes, for this moment; nullopt if the system does not tell. Memory that the kernel can reclaim, such as
// cached files, counts as free. `root`: the folder with proc/ and sys/, for tests.
std::optional<std::size_t> free_memory(const std::string& root = "/");

}  // namespace starling::node
