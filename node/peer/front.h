// The HTTP interface of a running peer (docs/API.md): the routes, the commands, and the stream that the live
// page follows. Everything except for the server itself runs on the daemon's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "node/front/http.h"
#include "node/front/live.h"
#include "node/peer/listening.h"
#include "node/peer/lives.h"
#include "node/peer/teller.h"
#include "node/peer/trial.h"

namespace starling::node {

class Front {
 public:
  // `leave` ends the peer.
  Front(Started& started, const Listening& listening, const Lives& lives, Teller& teller, Drive drive,
        std::function<void()> leave)
      : started_(started),
        listening_(listening),
        lives_(lives),
        teller_(teller),
        drive_(std::move(drive)),
        leave_(std::move(leave)),
        trial_(started, lives, started.io.get_executor()) {}

  // Listens, if the options say where.
  Status open();
  // To be called several times a second. Once a second the history grows and open pages get the new point;
  // they also get the state when the condition of a member changes.
  void tick();

 private:
  using Answer = std::function<HttpAnswer(const std::string& body)>;
  Answer when_begun(Answer answer) const;
  std::vector<HttpRoute> queries();
  std::vector<HttpRoute> commands();

  PeerStatus status(const std::vector<MemberStatus>& members) const;
  std::string unready() const;
  // Its trainer outside the process has ended, and no other one has attached yet.
  bool is_without_trainer() const {
    return lives_.outside() != nullptr && !listening_.attachment()->is_ready();
  }
  Status pause(bool paused);
  HttpAnswer introduce(const Address& address);
  HttpAnswer set_topology(const std::string& name);

  HttpAnswer begin_stream();
  void update_graph();
  std::string take_events();

  Started& started_;
  const Listening& listening_;
  const Lives& lives_;
  Teller& teller_;
  const Drive drive_;
  const std::function<void()> leave_;
  History history_;
  std::optional<double> recorded_;            // when the history last grew
  std::vector<std::string> conditions_sent_;  // of the members, at the last look
  std::uint64_t events_sent_ = 0;             // the latest event that was sent to pages
  LinkGraph graph_;
  std::optional<std::uint64_t> graph_version_;  // of the membership that graph_ shows
  bool graph_sent_ = false, analyzing_ = false;
  Trial trial_;
  std::unique_ptr<HttpServer> server_;  // last: its threads end first
};

}  // namespace starling::node
