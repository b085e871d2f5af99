// The live page of `starling simulate --http`: a peer's page (node/front), fed with pictures of the simulated
// swarm. It accepts no commands.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "lab/simulate/picture.h"
#include "node/front/http.h"
#include "node/front/live.h"
#include "training/runs/experiment/experiment.h"

namespace starling::cli {

class SimulatedPage {
 public:
  // Listens; port 0 takes any. `epoch_samples`: in the training set. The experiment outlives the page.
  static Result<std::unique_ptr<SimulatedPage>> open(const Address& at,
                                                     const training::Experiment& experiment,
                                                     const std::string& data, std::uint64_t epoch_samples);
  SimulatedPage(const SimulatedPage&) = delete;
  SimulatedPage& operator=(const SimulatedPage&) = delete;

  const Address& address() const { return server_->address(); }
  // Once a second, on the simulation's thread.
  bool is_due();
  void show(const lab::SwarmPicture& picture);

 private:
  struct Text {  // what the page asks for
    std::string status, members, topology, history, state;
  };
  SimulatedPage(const training::Experiment& experiment, const std::string& data, std::uint64_t epoch_samples)
      : experiment_(experiment), data_(data), epoch_samples_(epoch_samples) {}

  std::shared_ptr<const Text> text();
  std::vector<node::HttpRoute> routes();
  std::vector<node::MemberStatus> members_of(const lab::SwarmPicture& picture);
  node::PeerStatus status_of(const lab::SwarmPicture& picture,
                             const std::vector<node::MemberStatus>& members) const;
  void update_graph(const lab::SwarmPicture& picture);

  const training::Experiment& experiment_;
  std::string data_;
  std::uint64_t epoch_samples_;
  std::chrono::steady_clock::time_point shown_{};
  std::map<PeerId, std::uint64_t> samples_;  // at the last picture
  Instant pictured_{};
  double speed_ = 0;  // samples in a virtual second, of all
  node::History history_;
  node::LinkGraph graph_;
  // The simulation's thread writes it, the server's reads it.
  std::mutex mutex_;
  std::shared_ptr<const Text> text_;
  std::unique_ptr<node::HttpServer> server_;  // last: its thread ends first
};

}  // namespace starling::cli
