// The socket at which a trainer of another program attaches to the peer (docs/TRAINERS.md): it accepts
// processes of the same user, reads their declarations, shares the region with one of them at a time, and
// passes lines on. node/trainers/outside_trainer.h gives the lines their meaning. For one executor's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>

#include "base/result.h"
#include "base/time.h"
#include "node/front/log_limiter.h"
#include "node/trainers/declaration.h"
#include "node/trainers/region.h"

namespace starling::node {

class Attachment {
 public:
  static constexpr std::size_t kCallersMax = 8;  // connections that have not declared themselves
  static constexpr Duration kDeclarationLimit = std::chrono::seconds(10);

  explicit Attachment(asio::any_io_executor executor) : acceptor_(executor) {}
  ~Attachment();

  // Listens at this path, which only this user's processes may connect to. A socket there at which nobody
  // listens is replaced. The Error names the path.
  Status open(const std::string& path);
  // Ends all connections, and removes the socket.
  void close();

  struct Events {
    std::function<void()> ready = [] {};  // a trainer has attached, and written its parameters
    std::function<void()> rang = [] {};
    std::function<void()> bye = [] {};
    std::function<void()> gone = [] {};  // the trainer's connection has ended, after ready or before
  };
  // The lines that answer `events` and `members`.
  struct Answers {
    std::function<std::vector<std::string>()> events = [] { return std::vector<std::string>(); };
    std::function<std::vector<std::string>()> members = [] { return std::vector<std::string>(); };
  };
  void answer_with(Answers answers) { answers_ = std::move(answers); }
  void listen_to(Events events) { events_ = std::move(events); }

  // What the first trainer has declared; later ones must have the same tensors. REQUIRES: ready() has been
  // called.
  const Declaration& declaration() const { return *declaration_; }
  Region& region() { return *region_; }

  bool is_ready() const { return is_ready_; }

  // Asks the trainer for its state, for a newcomer. False: no trainer is there, it has not started, or it has
  // none.
  bool ask_for_state();
  // Whether region().state_given() has what was asked for last.
  bool state_is_given() const;
  // A copy is complete. `with_state`: region().state_received() has the donor's.
  void copied(bool with_state) { received_state_ = with_state; }
  // Before an era: offers the trainer the state that came with its parameters, if one did.
  void offer_state(std::uint64_t era);

  bool wants_events() const;
  // Lines for the trainer; without one they are dropped.
  void start() {
    is_started_ = true;
    send("start");
  }
  void ring() { send("ring"); }
  // These two wait while the trainer reads nothing; the outbox bounds their number.
  void say(const std::string& text);
  void tell(const std::string& event);  // "joined NAME", if the trainer wants events
  void over(const std::string& text) { send("over " + text); }

 private:
  using Socket = asio::local::stream_protocol::socket;
  struct Caller;

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(std::shared_ptr<Caller> caller);
  asio::awaitable<bool> read_declaration(Caller& caller);
  asio::awaitable<void> limit_declaration(std::shared_ptr<Caller> caller);
  Status admit(const Declaration& declaration);
  bool share_region(Caller& caller);
  void take(std::string_view line);
  void leave(const std::shared_ptr<Caller>& caller);
  void refuse(Caller& caller, const std::string& why);
  void send(const std::string& line);
  asio::awaitable<void> send_waiting(std::shared_ptr<Caller> caller);
  void send_later(const std::shared_ptr<Caller>& caller);

  asio::local::stream_protocol::acceptor acceptor_;
  std::string path_;
  struct stat made_ {};  // of the socket at the path
  Events events_;
  Answers answers_;
  std::optional<Declaration> declaration_;
  std::unique_ptr<Region> region_;
  std::vector<std::shared_ptr<Caller>> callers_;  // without the one that is attached
  std::shared_ptr<Caller> attached_;
  bool is_ready_ = false, is_started_ = false, gives_state_ = false;
  bool received_state_ = false;  // and not offered to the trainer
  std::uint64_t state_asked_ = 0;
  LogLimiter refusals_{64};  // by process
};

}  // namespace starling::node
