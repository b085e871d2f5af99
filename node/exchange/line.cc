#include "node/exchange/line.h"

#include "transport/spawn.h"

namespace starling::node {

asio::awaitable<transport::LinkResult<transport::Frame>> Line::read() {
  if (!watched) co_return co_await link->read();
  while (!first) co_await arrived.wait();
  auto frame = std::move(*first);
  first.reset();
  watched = false;
  co_return frame;
}

LinePtr LinePool::take(PeerId partner) {
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->remote != partner || !(*it)->link->is_open()) continue;
    LinePtr line = *it;
    idle_.erase(it);
    line->idle = false;
    return line;
  }
  return nullptr;
}

void LinePool::rest(LinePtr line) {
  line->link->expires_after(idle_limit_);
  line->idle = true;
  line->watched = true;
  idle_.push_front(line);
  transport::spawn(executor_, watch(std::move(line)));
  if (idle_.size() <= lines_max_) return;
  idle_.back()->idle = false;
  idle_.back()->link->close();
  idle_.pop_back();
}

void LinePool::close() {
  for (auto& line : idle_) {
    line->idle = false;
    line->link->close();
  }
  idle_.clear();
}

asio::awaitable<void> LinePool::watch(LinePtr line) {
  line->first.emplace(co_await line->link->read());
  if (line->idle) {  // nothing may arrive on an idle line. The pool still exists, or it would not be idle
    line->idle = false;
    line->link->close();
    idle_.remove(line);
    co_return;
  }
  line->arrived.raise();
}

}  // namespace starling::node
