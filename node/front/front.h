// The HTTP interface of a running peer (docs/API.md): the routes, and the stream that the live page follows.
// Everything except for the server itself runs on the peer's own thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gossip/membership.h"
#include "node/front/event_log.h"
#include "node/front/history.h"
#include "node/front/http.h"
#include "node/front/live.h"
#include "node/front/status.h"
#include "node/work/background.h"

namespace starling::node {

// What the front needs of the peer. Called on the peer's thread.
class FrontHost {
 public:
  virtual ~FrontHost() = default;
  virtual const gossip::Membership* membership() const = 0;  // null before the core begins
  virtual std::string unready() const = 0;  // why it takes no part in the run, a sentence; empty: it does
  virtual PeerStatus status() const = 0;    // REQUIRES: the core has begun; members() too
  virtual std::vector<MemberStatus> members() const = 0;
  virtual EventLog& events() = 0;
  virtual training::ConsensusModel consensus_model() const = 0;  // of the run's rule

  virtual void leave() = 0;
  virtual Status rest(bool paused) = 0;  // the Error says why not
  virtual HttpAnswer introduce(const Address& address) = 0;
  virtual HttpAnswer set_topology(const std::string& name) = 0;
};

class Front {
 public:
  // Listens. The host and the analyst outlive the front; the analyst's thread analyzes graphs.
  static Result<std::unique_ptr<Front>> open(const Address& at, const std::string& token, FrontHost& host,
                                             Post post, Background& analyst);

  const Address& address() const { return server_->address(); }
  // To be called several times a second. Once a second the history grows and open pages get the new point.
  void tick();

 private:
  Front(FrontHost& host, Background& analyst) : host_(host), analyst_(analyst) {}
  using Answer = std::function<HttpAnswer(const std::string& body)>;
  Answer when_begun(Answer answer) const;
  std::vector<HttpRoute> queries();
  std::vector<HttpRoute> commands(const Post& post);
  HttpAnswer begin_stream();
  void update_graph();
  std::string take_events();

  FrontHost& host_;
  Background& analyst_;
  History history_;
  std::optional<double> recorded_;  // when the history last grew
  std::uint64_t told_ = 0;          // the latest event that was sent to pages
  LinkGraph graph_;
  std::optional<std::uint64_t> graph_version_;  // of the membership that graph_ shows
  bool graph_told_ = false, analyzing_ = false;
  std::unique_ptr<HttpServer> server_;  // last: its threads end first
};

}  // namespace starling::node
