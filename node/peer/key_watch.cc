#include "node/peer/key_watch.h"

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "transport/tls/tls.h"

namespace starling::node {

void KeyWatch::begin() {
  if (!options_.tls || options_.key_file.empty()) return;
  look();
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) begin();
  });
}

// A file that is being copied may be incomplete: the keys stay as they are until it can be read.
void KeyWatch::look() {
  auto read = transport::SwarmKeys::read(options_.key_file);
  if (!read) {
    if (!std::exchange(failing_, true)) spdlog::warn("{}; the keys stay as they are", read.error().message);
    return;
  }
  failing_ = false;
  if (keys_ == *read) return;
  if (const Status set = options_.tls->set_keys(*read); !set) {
    spdlog::warn("{}; the keys stay as they are", set.error().message);
  } else if (keys_) {
    spdlog::info("the keys were read again from {}: {} accepted", options_.key_file, read->entries.size());
  }
  keys_ = std::move(*read);
}

}  // namespace starling::node
