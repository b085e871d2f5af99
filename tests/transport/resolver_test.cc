// Names: which are looked up, by how many threads, and what is remembered.
#include "transport/dial/resolver.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <asio/executor_work_guard.hpp>

#include "tests/transport/world.h"

namespace starling::transport {
namespace {

using namespace testing;

HostAddresses at(const std::string& literal) { return {asio::ip::make_address(literal)}; }

// Name servers whose answers a test holds back. Each lookup posts an event to the world, which wakes until().
class FakeNames {
 public:
  explicit FakeNames(World& world) : shared_(std::make_shared<Shared>(world.executor())) {}
  ~FakeNames() {
    const std::lock_guard lock(shared_->mutex);
    shared_->executor.reset();
  }

  ResolverOptions options(Duration failure_kept = std::chrono::seconds(30)) const {
    ResolverOptions options;
    options.failure_kept = failure_kept;
    options.look_up = [shared = shared_](const std::string& host) { return shared->look_up(host); };
    return options;
  }
  void answer(const std::string& host, HostAddresses addresses) {
    const std::lock_guard lock(shared_->mutex);
    shared_->answers[host] = std::move(addresses);
  }
  void hang(const std::string& host) {
    const std::lock_guard lock(shared_->mutex);
    shared_->hanging.insert(host);
  }
  void release() {
    const std::lock_guard lock(shared_->mutex);
    shared_->hanging.clear();
    shared_->changed.notify_all();
  }
  // The names of the lookups so far, in the order in which they began.
  std::vector<std::string> asked() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->asked;
  }
  std::ptrdiff_t asked(const std::string& host) const { return std::ranges::count(asked(), host); }
  std::size_t running() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->running;
  }

 private:
  struct Shared {
    explicit Shared(asio::any_io_executor e) : executor(std::move(e)) {}

    Result<HostAddresses> look_up(const std::string& host) {
      std::unique_lock lock(mutex);
      asked.push_back(host);
      ++running;
      if (executor) asio::post(*executor, [] {});
      changed.wait(lock, [&] { return !hanging.contains(host); });
      --running;
      const auto found = answers.find(host);
      if (found == answers.end()) return Error{"no such name"};
      return found->second;
    }

    std::mutex mutex;
    std::condition_variable changed;
    std::optional<asio::any_io_executor> executor;
    std::map<std::string, HostAddresses> answers;  // other names do not exist
    std::set<std::string> hanging;
    std::vector<std::string> asked;
    std::size_t running = 0;
  };
  std::shared_ptr<Shared> shared_;  // with lookups that outlive the test
};

std::chrono::steady_clock::time_point in(Duration wait) { return std::chrono::steady_clock::now() + wait; }

Result<HostAddresses> resolve(World& world, Resolver& resolver, const std::string& host) {
  return world.run(resolver.resolve(host, in(kLong)));
}

}  // namespace

TEST_CASE("literals and localhost are never looked up") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  CHECK(resolve(world, resolver, "127.0.0.2").value() == at("127.0.0.2"));
  CHECK(resolve(world, resolver, "2001:db8::7").value() == at("2001:db8::7"));
  const HostAddresses loopback = {asio::ip::make_address("127.0.0.1"), asio::ip::make_address("::1")};
  CHECK(resolve(world, resolver, "localhost").value() == loopback);
  CHECK(names.asked().empty());
  CHECK_FALSE(resolve(world, resolver, "other").ok());
  CHECK(names.asked("other") == 1);
}

TEST_CASE("all who ask for a name wait for the same lookup") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  names.answer("a", at("10.0.0.1"));
  names.hang("a");
  const auto first = world.begin(resolver.resolve("a", in(kLong)));
  REQUIRE(world.until([&] { return names.running() == 1; }));
  const auto second = world.begin(resolver.resolve("a", in(kLong)));
  names.answer("b", at("10.0.0.2"));
  CHECK(resolve(world, resolver, "b").value() == at("10.0.0.2"));  // the second one has begun
  CHECK_FALSE(first->has_value());
  names.release();
  REQUIRE(world.until([&] { return first->has_value() && second->has_value(); }));
  CHECK((*first)->value() == at("10.0.0.1"));
  CHECK((*second)->value() == at("10.0.0.1"));
  CHECK(names.asked("a") == 1);
}

TEST_CASE("a failure is remembered, for a limited time") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  for (int i = 0; i < 3; ++i) {
    const auto answer = resolve(world, resolver, "a");
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().message == "no such name");
  }
  CHECK(names.asked("a") == 1);

  Resolver forgetful(world.executor(), names.options(Duration{0}));
  CHECK_FALSE(resolve(world, forgetful, "a").ok());
  names.answer("a", at("10.0.0.1"));
  CHECK(resolve(world, forgetful, "a").value() == at("10.0.0.1"));
  CHECK(names.asked("a") == 3);
}

TEST_CASE("a name without an address is an error") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  names.answer("a", {});
  const auto answer = resolve(world, resolver, "a");
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.error().message == "its name has no address");
}

TEST_CASE("names that failed before use one thread, and do not delay other names") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options(Duration{0}));
  const std::vector<std::string> lost = {"lost1", "lost2", "lost3", "lost4", "lost5", "lost6"};
  for (const std::string& name : lost) {
    REQUIRE_FALSE(resolve(world, resolver, name).ok());
    names.hang(name);
  }
  std::vector<std::shared_ptr<std::optional<Result<HostAddresses>>>> retries;
  for (const std::string& name : lost) retries.push_back(world.begin(resolver.resolve(name, in(kLong))));
  REQUIRE(world.until([&] { return names.running() == 1; }));
  for (int i = 0; i < 20; ++i) {
    const std::string name = "new" + std::to_string(i);
    names.answer(name, at("10.0.0.1"));
    REQUIRE(resolve(world, resolver, name).ok());
    REQUIRE(names.running() == 1);
  }
  CHECK(std::ranges::none_of(retries, [](const auto& retry) { return retry->has_value(); }));
  names.release();
  REQUIRE(world.until(
      [&] { return std::ranges::all_of(retries, [](const auto& retry) { return retry->has_value(); }); }));
}

TEST_CASE("slow names without an answer so far leave a thread to names that were resolved before") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  names.answer("old", at("10.0.0.1"));
  REQUIRE(resolve(world, resolver, "old").ok());
  std::vector<std::shared_ptr<std::optional<Result<HostAddresses>>>> slow;
  for (int i = 0; i < 50; ++i) {
    names.hang("slow" + std::to_string(i));
    slow.push_back(world.begin(resolver.resolve("slow" + std::to_string(i), in(kLong))));
  }
  REQUIRE(world.until([&] { return names.running() == Resolver::kUnprovenMax; }));
  for (int i = 0; i < 20; ++i) REQUIRE(resolve(world, resolver, "old").ok());
  CHECK(names.running() == Resolver::kUnprovenMax);
  names.release();
  REQUIRE(world.until(
      [&] { return std::ranges::all_of(slow, [](const auto& one) { return one->has_value(); }); }));
}

TEST_CASE("a lookup ends for its caller at the deadline, and one that nobody waits for is not started") {
  World world;
  FakeNames names(world);
  Resolver resolver(world.executor(), names.options());
  for (const char* name : {"a", "b", "c"}) {
    names.hang(name);
    const auto answer = world.run(resolver.resolve(name, in(std::chrono::milliseconds(20))));
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().message == "its name was not resolved in time");
  }
  REQUIRE(world.until([&] { return names.running() == 3; }));
  CHECK_FALSE(world.run(resolver.resolve("given up", in(std::chrono::milliseconds(20)))).ok());
  const auto waits = world.begin(resolver.resolve("waits", in(kLong)));
  names.release();
  REQUIRE(world.until([&] { return waits->has_value(); }));
  CHECK(names.asked("waits") == 1);
  CHECK(names.asked("given up") == 0);
}

TEST_CASE("a resolver and its executor end while a lookup hangs") {
  const auto end_of_thread = std::make_shared<std::promise<void>>();
  std::future<void> ended = end_of_thread->get_future();
  std::promise<void> go_on;
  {
    World world;
    bool begun = false;
    // Destroyed with the last copy of the lookup, which is the thread's.
    const std::shared_ptr<void> token(nullptr, [end_of_thread](void*) { end_of_thread->set_value(); });
    ResolverOptions options;
    options.look_up = [token, executor = world.executor(), &begun,
                       wait = go_on.get_future().share()](const std::string&) -> Result<HostAddresses> {
      asio::post(executor, [&begun] { begun = true; });
      wait.wait();
      return at("10.0.0.1");
    };
    Resolver resolver(world.executor(), std::move(options));
    const auto waits = world.begin(resolver.resolve("a", in(kLong)));
    REQUIRE(world.until([&] { return begun; }));
    CHECK_FALSE(waits->has_value());
  }
  go_on.set_value();
  CHECK(ended.wait_for(kLong) == std::future_status::ready);
}

TEST_CASE("a name is dialed at the address of its last connection, without a lookup") {
  World world;
  FakeNames names(world);
  const auto server = world.make_transport();
  std::size_t accepted = 0;
  const auto count = [&](const LinkPtr&) { ++accepted; };
  auto listener = server->listen({"127.0.0.1", 0}, count);
  REQUIRE(listener.ok());
  const Address by_name{"member", (*listener)->address().port};
  TcpTransport transport(world.executor(), {}, names.options());

  names.answer("member", at("127.0.0.1"));
  REQUIRE(world.run(transport.dial(by_name, kLong)).ok());
  names.hang("member");
  for (int i = 0; i < 3; ++i) REQUIRE(world.run(transport.dial(by_name, kLong)).ok());
  CHECK(names.asked("member") == 1);
  REQUIRE(world.until([&] { return accepted == 4; }));

  // The member moves.
  (*listener)->close();
  auto moved = server->listen({"127.0.0.2", by_name.port}, count);
  REQUIRE(moved.ok());
  names.answer("member", at("127.0.0.2"));
  names.release();
  const auto dialed = world.run(transport.dial(by_name, kLong));
  REQUIRE(dialed.ok());
  CHECK((*dialed)->remote().host == "127.0.0.2");
  CHECK(names.asked("member") == 2);
  REQUIRE(world.run(transport.dial(by_name, kLong)).ok());
  CHECK(names.asked("member") == 2);
}

TEST_CASE("an old answer is renewed in the background, and a lost address is forgotten") {
  World world;
  FakeNames names(world);
  ResolverOptions options = names.options();
  options.answer_kept = Duration{0};
  Resolver resolver(world.executor(), std::move(options));
  names.answer("a", at("10.0.0.1"));
  REQUIRE(resolve(world, resolver, "a").ok());
  CHECK_FALSE(resolver.last_good("a"));
  const auto working = asio::make_work_guard(world.io);  // nobody waits for the lookup
  resolver.connected("a", at("10.0.0.1").front());
  names.answer("a", at("10.0.0.2"));
  CHECK(resolver.last_good("a") == at("10.0.0.1").front());
  CHECK(world.until([&] { return !resolver.last_good("a"); }));
  CHECK(names.asked("a") == 2);
}

}  // namespace starling::transport
