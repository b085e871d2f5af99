// Addresses of host names, without blocking the executor. IP literals and "localhost" are never looked up.
// For other names a lookup runs on a thread of its own, at most kThreads at a time and one for each name: who
// asks for a name that is being looked up waits for that lookup. A failure is remembered for a while, and so
// is the address that the last connection to a name used, so that dialing a member again needs no lookup.
//
// Slow names cannot starve the others, although the resolver is not told what a dial is for. Names whose last
// lookup failed, such as lost members' names, may use one thread; these and names without any answer so far
// may use three. A lookup that nobody waits for is not started.
//
// A lookup cannot be interrupted. Its thread is detached and owns all that it uses, so neither the destructor
// nor the end of the process waits for it; its answer is dropped. Lives on one single-threaded executor,
// whose context outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/address.hpp>

#include "base/result.h"
#include "base/time.h"

namespace starling::transport {

using HostAddresses = std::vector<asio::ip::address>;

// The address of a literal, or both loopback addresses for "localhost"; nullopt: any other name.
std::optional<HostAddresses> addresses_without_lookup(const std::string& host);

// Asks the system. Blocks, for as long as its configuration allows.
Result<HostAddresses> look_up(const std::string& host);

struct ResolverOptions {
  // Called on threads of the resolver, for different names at once. The Error is one phrase.
  std::function<Result<HostAddresses>(const std::string& host)> look_up = transport::look_up;
  Duration failure_kept = std::chrono::seconds(30);
  // last_good() looks up a name again in the background if its last answer is older than this.
  Duration answer_kept = std::chrono::seconds(30);
};

class Resolver {
 public:
  static constexpr std::size_t kThreads = 4;
  static constexpr std::size_t kUnprovenMax = 3;  // lookups of names without an answer last time
  static constexpr std::size_t kFailedMax = 1;    // of them, for names that failed last time
  static constexpr std::size_t kNamesMax = 1024;  // remembered

  explicit Resolver(asio::any_io_executor executor, ResolverOptions options = {});
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // At least one address, or the Error of the lookup or of the deadline: one phrase.
  asio::awaitable<Result<HostAddresses>> resolve(std::string host,
                                                 std::chrono::steady_clock::time_point deadline);

  // The address of the last connection to this name, unless a later lookup no longer returned it. nullopt for
  // names without one, and for literals.
  std::optional<asio::ip::address> last_good(const std::string& host);
  void connected(const std::string& host, const asio::ip::address& address);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace starling::transport
