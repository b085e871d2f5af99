#include "node/keep/peer_cache.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "gossip/joining.h"
#include "tests/catch.h"
#include "tests/node/introduced.h"
#include "tests/training/temporary_folder.h"
#include "tests/wire/random_message.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::node {
namespace {

using training::contents;
using training::TemporaryFolder;

CachedSwarm small_swarm(std::uint16_t members = 3) {
  CachedSwarm cached;
  cached.swarm = "starling";
  cached.manifest = {"lenet", "glyphs", 0xfedcba9876543210,
                     129'068, 7,        {{"seed", "7"}, {"gossip.rule", "pairwise"}}};
  for (std::uint16_t i = 0; i < members; ++i) {
    const auto port = static_cast<std::uint16_t>(7100 + i);
    cached.members.push_back({"p" + std::to_string(i), {i % 2 == 0 ? "10.0.0.1" : "::1", port}});
  }
  return cached;
}

std::unique_ptr<PeerCache> open_cache(const TemporaryFolder& folder) {
  auto cache = PeerCache::open(folder.path());
  REQUIRE(cache.ok());
  return std::move(*cache);
}

// As an earlier version wrote it.
std::string without_check(std::string text) {
  const std::size_t at = text.find(",\n \"check\"");
  REQUIRE(at != std::string::npos);
  return text.erase(at, text.find('\n', at + 2) - at);
}

bool holds(const TemporaryFolder& folder, const std::string& name) {
  return std::filesystem::exists(folder.file(name));
}

wire::Member member(std::uint64_t id, std::uint16_t port, wire::Liveness liveness) {
  wire::Member member;
  member.id = PeerId{id};
  member.name = "p" + std::to_string(id);
  member.address = {"127.0.0.1", port};
  member.liveness = liveness;
  return member;
}

}  // namespace

TEST_CASE("a manifest carries the facts of a run, also a long tokenizer, and they are no settings") {
  std::string tokenizer = "starling tokenizer 1\n";
  for (int line = 0; line < 20'000; ++line) tokenizer += std::to_string(line) + " 1\n";
  REQUIRE(tokenizer.size() > 3 * wire::kSettingValueBytesMax);
  wire::Manifest manifest = small_swarm().manifest;
  manifest.settings = {{"gossip.rule", "pairwise"}};
  const std::string description =
      "{\"columns\":[\"" + std::string(wire::kSettingValueBytesMax, 'a') + ";b\"]}";
  add_facts(manifest, {"fc1.weight 3x2", 40, tokenizer, description});
  const auto decoded = wire::decode_message(wire::encode_message(wire::Welcome{manifest, Duration{0}, {}}));
  REQUIRE(decoded.ok());
  const RunFacts facts = facts_of(std::get<wire::Welcome>(*decoded).manifest);
  CHECK(facts.tensors == "fc1.weight 3x2");
  CHECK(facts.epoch_samples == 40);
  CHECK(facts.tokenizer == tokenizer);
  CHECK(facts.description == description);
  training::Experiment experiment;
  CHECK(apply_settings(experiment, manifest).ok());

  // Only the parts of a tokenizer have one key.
  for (const char* key : {"gossip.rule", "model.tensors", "data.epoch_samples"}) {
    wire::Manifest twice = manifest;
    twice.settings.push_back({key, "1"});
    const Status status = apply_settings(experiment, twice);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message == "the swarm's settings: " + std::string(key) + " is given twice");
  }

  wire::Manifest without = small_swarm().manifest;
  add_facts(without, {"", 0, std::string(kManifestTokenizerBytesMax + 1, 'x'),
                      std::string(kManifestDescriptionBytesMax + 1, 'x')});
  CHECK(without == small_swarm().manifest);
}

TEST_CASE("live members are remembered first, then failed ones, then earlier entries; left ones never") {
  using wire::Liveness;
  gossip::Membership membership(gossip::identity_of(1), gossip::by_itself(member(1, 7100, Liveness::alive)),
                                {}, Random(1));
  std::vector<gossip::Action> actions;
  membership.start(Instant{});
  // The last one has this peer's own address: it is an earlier instance of this peer.
  const std::vector<wire::Member> alive = {member(2, 7102, Liveness::alive), member(3, 7103, Liveness::alive),
                                           member(4, 7104, Liveness::alive), member(5, 7105, Liveness::alive),
                                           member(6, 7100, Liveness::alive)};
  introduce(membership, alive, actions);
  membership.on(Instant{}, PeerId{4}, {}, wire::Leave{gossip::by_itself(member(4, 7104, Liveness::left))},
                actions);
  for (Instant now{}; now < Instant{std::chrono::seconds(60)}; now = now + std::chrono::milliseconds(100)) {
    for (const std::uint16_t id : {3, 5})
      membership.heard(now, PeerId{id}, {"127.0.0.1", static_cast<std::uint16_t>(7100 + id)}, actions);
    membership.tick(now, actions);
    actions.clear();
  }
  REQUIRE(membership.find(PeerId{2})->member.liveness == Liveness::failed);
  const std::vector<CachedPeer> before = {
      {"p3", {"127.0.0.1", 7103}}, {"p4", {"127.0.0.1", 7104}}, {"old", {"127.0.0.1", 7109}}};
  std::vector<std::uint16_t> ports;
  for (const CachedPeer& peer : peers_to_cache(membership, before)) ports.push_back(peer.address.port);
  CHECK(ports == std::vector<std::uint16_t>{7103, 7105, 7102, 7109});
}

TEST_CASE("the number of remembered members is bounded") {
  gossip::Membership membership(gossip::identity_of(1),
                                gossip::by_itself(member(1, 7100, wire::Liveness::alive)), {}, Random(1));
  std::vector<CachedPeer> before;
  for (std::uint16_t i = 0; i < 2000; ++i)
    before.push_back({"p", {"127.0.0.1", static_cast<std::uint16_t>(8000 + i)}});
  CHECK(peers_to_cache(membership, before).size() == CachedSwarm::kMembersMax);
}

TEST_CASE("a written cache can be read in the same and in a later process") {
  const TemporaryFolder folder;
  auto cache = open_cache(folder);
  CHECK_FALSE(cache->load("starling")->swarm.has_value());
  CHECK(cache->load("starling")->warning.empty());
  REQUIRE(cache->write(to_json(small_swarm())).ok());
  CHECK(cache->load("starling")->swarm == small_swarm());
  cache.reset();
  CHECK(open_cache(folder)->load("starling")->swarm == small_swarm());
}

TEST_CASE("a path of data that an older version wrote is replaced by the data's name, which joiners accept") {
  CachedSwarm older = small_swarm(), now = older;
  older.manifest.settings.push_back({"data.source", "/home/ada/glyphs"});
  now.manifest.settings.push_back({"data.source", "glyphs"});
  const auto read = parse_cached_swarm(to_json(older));
  REQUIRE(read.ok());
  CHECK(read->swarm == now);
  CHECK(read->warning.empty());
}

TEST_CASE("the largest swarm that fits in the cache reads back") {
  const TemporaryFolder folder;
  const auto cache = open_cache(folder);
  const auto swarm = small_swarm(CachedSwarm::kMembersMax);
  REQUIRE(cache->write(to_json(swarm)).ok());
  CHECK(cache->load("starling")->swarm == swarm);
}

TEST_CASE("a folder belongs to one running peer at a time") {
  const TemporaryFolder folder;
  auto cache = open_cache(folder);
  const auto second = PeerCache::open(folder.path());
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find("another running peer uses the folder " + folder.path()) !=
        std::string::npos);
  cache.reset();
  CHECK(PeerCache::open(folder.path()).ok());
}

TEST_CASE("a folder that cannot be made is an error that names it") {
  const TemporaryFolder folder;
  folder.write("file", "");
  const auto cache = PeerCache::open(folder.file("file/state"));
  REQUIRE_FALSE(cache.ok());
  CHECK(cache.error().message.find(folder.file("file/state")) != std::string::npos);
}

TEST_CASE("a cache that cannot be used is renamed, with one message") {
  const TemporaryFolder folder;
  const std::string sound = without_check(to_json(small_swarm()));
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = sound;
    text.replace(text.find(what), what.size(), by);
    return text;
  };
  CachedSwarm crowd = small_swarm(CachedSwarm::kMembersMax);
  std::string too_many = without_check(to_json(crowd));
  too_many.insert(too_many.rfind("\n ]"), ",{\"name\":\"one\",\"address\":\"a:1\"}");
  for (const std::string& text : std::vector<std::string>{
           "",
           "\0\0\0\0",
           "[]",
           sound.substr(0, sound.size() / 2),
           replaced("\"format\": 1", "\"format\": 0"),
           replaced("\"format\": 1", "\"format\": \"2\""),
           replaced("\"members\"", "\"people\""),
           sound.substr(0, sound.find("\"members\"")) + "\"members\": 7}",
           replaced("lenet", "le\\u0007net"),
           replaced("129068", "-1"),
           std::string(std::size_t{5} << 20, ' '),
           too_many,
       }) {
    INFO(text.substr(0, 200));
    const auto cache = open_cache(folder);
    folder.write("peers.json", text);
    const auto read = cache->load("starling");
    REQUIRE(read.ok());
    const auto& loaded = *read;
    CHECK_FALSE(loaded.swarm.has_value());
    CHECK(loaded.warning.find(folder.file("peers.json")) == 0);
    CHECK(loaded.warning.find('\n') == std::string::npos);
    CHECK_FALSE(holds(folder, "peers.json"));
    CHECK(contents(folder.file("peers.json.damaged")) == text);
  }
}

TEST_CASE("a cache of a later version or of another swarm is an error that names both, and stays") {
  const TemporaryFolder folder;
  std::string later = without_check(to_json(small_swarm()));
  later.replace(later.find("\"format\": 1"), 11, "\"format\": 2, \"news\": []");
  CachedSwarm foreign = small_swarm();
  foreign.swarm = "murmuration";
  const std::string path = folder.file("peers.json");
  for (const auto& [text, begin, end] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {later, path + " has format 2, and Starling ",
            " reads format 1: start the newer version that wrote it, or name another folder"},
           {to_json(foreign), path + " is of the swarm 'murmuration', not 'starling': ",
            "give --swarm murmuration, or name another folder"}}) {
    const auto cache = open_cache(folder);
    folder.write("peers.json", text);
    const auto loaded = cache->load("starling");
    REQUIRE(!loaded.ok());
    const std::string& said = loaded.error().message;
    INFO(said);
    CHECK((said.starts_with(begin) && said.ends_with(end)));
    CHECK(said.find('\n') == std::string::npos);
    CHECK(contents(path) == text);
    CHECK_FALSE(holds(folder, "peers.json.damaged"));
  }
}

TEST_CASE("a setting that this version does not know is said to be of a newer version") {
  training::Experiment joiner;
  const training::Experiment before = joiner;
  wire::Manifest manifest = small_swarm().manifest;
  manifest.settings.push_back({"gossip.telepathy", "on"});
  const Status applied = apply_settings(joiner, manifest);
  REQUIRE(!applied.ok());
  const std::string& said = applied.error().message;
  INFO(said);
  CHECK(said.starts_with("the swarm's settings: Starling "));
  CHECK(said.ends_with(
      " does not know 'gossip.telepathy', so the swarm runs a newer version: install that one here"));
  CHECK(joiner == before);
  manifest.program = "0.9.0";
  CHECK(apply_settings(joiner, manifest)
            .error()
            .message.ends_with("the swarm runs a newer version, Starling 0.9.0: install that one here"));
}

TEST_CASE("a program knows each setting that it tells others") {
  const wire::Program program = own_program();
  CHECK(program.knows.size() <= wire::kKnownMax);
  for (const training::Setting& setting : training::settings()) {
    INFO(setting.key);
    CHECK(gossip::unknown_to(program, {setting.key, setting.get({}).value_or("anything")}).empty());
    for (const std::string& choice : setting.choices)
      CHECK(gossip::unknown_to(program, {setting.key, choice}).empty());
  }
  wire::Manifest manifest;
  add_facts(manifest, {"fc1.weight 3x2", 40, "starling tokenizer 1\n", "{}"});
  for (const wire::ManifestEntry& fact : manifest.settings) CHECK(gossip::unknown_to(program, fact).empty());
  CHECK(gossip::unknown_to(program, {"gossip.rule", "telepathy"}) == "gossip.rule = telepathy");
  CHECK(gossip::unknown_to(program, {"gossip.telepathy", "on"}) == "gossip.telepathy");
}

TEST_CASE("a peer of version 0.3 finds every key of a manifest with defaults, and ignores later facts") {
  // All that such a peer accepts among the settings beside those in its own table.
  const std::vector<std::string> facts = {"model.tensors", "data.epoch_samples", "data.tokenizer"};
  wire::Manifest manifest;
  add_facts(manifest, {"fc1.weight 3x2", 40, "starling tokenizer 1\n", "{}"});
  for (const wire::ManifestEntry& setting : manifest.settings)
    CHECK(std::ranges::find(facts, setting.key) != facts.end());
  CHECK(facts_of(manifest).description == "{}");
  // Development versions between 0.3 and 0.4 told it as a setting.
  manifest.settings.insert(manifest.settings.end(), manifest.facts.begin(), manifest.facts.end());
  manifest.facts = {{"data.unheard_of", "1"}};
  CHECK(facts_of(manifest).description == "{}");
  training::Experiment joiner;
  CHECK(apply_settings(joiner, manifest).ok());
}

TEST_CASE("a cache of version 0.3, without facts, is read") {
  CachedSwarm swarm = small_swarm();
  swarm.manifest.facts = {{"data.description", "{}"}};
  swarm.manifest.program = "0.4.0";
  const auto read = parse_cached_swarm(to_json(swarm));
  REQUIRE(read.ok());
  CHECK(read->swarm == swarm);
  // They are the last ones of the manifest.
  std::string earlier = without_check(to_json(swarm));
  const std::size_t facts = earlier.find("\"facts\""), program = earlier.find("\"program\"");
  REQUIRE((facts < program && program != std::string::npos));
  const std::size_t begin = earlier.rfind(',', facts);
  earlier.erase(begin, earlier.find('}', program) - begin);
  const auto old = parse_cached_swarm(earlier);
  REQUIRE(old.ok());
  swarm.manifest.facts.clear();
  swarm.manifest.program.clear();
  CHECK(old->swarm == swarm);
}

TEST_CASE("a flipped bit of a cache is found, and a cache without a check sum is read") {
  const CachedSwarm swarm = small_swarm();
  const std::string text = to_json(swarm);
  std::size_t found = 0;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto read = parse_cached_swarm(flipped);
    found += !read.ok();
    INFO(flipped);
    // What is read nevertheless is the same: white space, or the key of the check sum.
    if (read.ok()) REQUIRE((read->swarm == swarm && read->warning.empty()));
  }
  CHECK(found > 7 * text.size() / 2);
  const auto older = parse_cached_swarm(without_check(text));
  REQUIRE(older.ok());
  CHECK(older->swarm == swarm);
}

TEST_CASE("members that cannot be used are left out of a cache with one warning, and the rest is used") {
  const TemporaryFolder folder;
  const std::string sound = without_check(to_json(small_swarm()));
  CachedSwarm rest = small_swarm();
  rest.members.erase(rest.members.begin());
  const std::string address = "10.0.0.1:7100", name = "\"p0\"";
  for (const auto& [what, by] : std::vector<std::pair<std::string, std::string>>{
           {address, "10.0.0.1"},
           {address, "10.0.0.1:0"},
           {address, "a b:9"},
           {address, "\xc2\x9b:9"},
           {name, "\"" + std::string(65, 'p') + "\""},
           {name, "\"a b\""},
           {name, "\"\\u202e\""},
           {name, "7"},
           {"\"name\": \"p0\"", "\"nickname\": \"p0\""},
       }) {
    INFO(by);
    std::string text = sound;
    text.replace(text.find(what), what.size(), by);
    const auto cache = open_cache(folder);
    folder.write("peers.json", text);
    const auto loaded = *cache->load("starling");
    CHECK(loaded.swarm == rest);
    CHECK(loaded.warning.starts_with(folder.file("peers.json") +
                                     ": a member that cannot be used is left out: {"));
    const bool shows_port = loaded.warning.find("7100") != std::string::npos;
    CHECK(shows_port == (what != address));
    CHECK(std::ranges::all_of(loaded.warning, [](char c) { return c >= ' ' && c <= '~'; }));
    CHECK(contents(folder.file("peers.json")) == text);
  }
  std::string none = sound;
  for (std::size_t at = 0; (at = none.find("\"p", at)) != std::string::npos; at += 2)
    none.insert(at + 1, " ");
  const auto read = parse_cached_swarm(none);
  REQUIRE(read.ok());
  CHECK(read->swarm.members.empty());
  CHECK(read->warning.starts_with("3 members that cannot be used are left out, such as {\"name\":\" p0\""));
}

TEST_CASE("every member and every manifest that a message may carry survives the cache") {
  Random r(17);
  std::size_t accepted = 0, rejected = 0;
  const auto judge = [&](const std::vector<std::byte>& body) {
    const auto decoded = wire::decode_message(body);
    if (!decoded) {
      ++rejected;
      return;
    }
    CachedSwarm swarm = small_swarm(0);
    const auto add = [&](const auto& message) {
      if constexpr (requires { message.members; }) {
        for (const wire::Member& m : message.members)
          if (m.address) swarm.members.push_back({m.name, m.address});
      }
      if constexpr (requires { message.self; })
        if (message.self.address) swarm.members.push_back({message.self.name, message.self.address});
      if constexpr (requires { message.manifest; }) swarm.manifest = message.manifest;
    };
    std::visit(add, *decoded);
    const auto read = parse_cached_swarm(to_json(swarm));
    REQUIRE(read.ok());
    REQUIRE(read->swarm == swarm);
    REQUIRE(read->warning.empty());
    accepted += swarm.members.size();
  };
  const auto random_bytes = [&r](std::size_t most) {
    std::string text(1 + r.below(most), ' ');
    for (char& c : text) c = static_cast<char>(r.below(256));
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    for (std::size_t kind = 0; kind < std::variant_size_v<wire::Message>; ++kind) {
      auto body = wire::encode_message(wire::testing::random_message(r, kind));
      judge(body);
      for (std::uint64_t flips = 1 + r.below(4); flips > 0; --flips)
        body[r.below(body.size())] ^= static_cast<std::byte>(1 + r.below(255));
      judge(body);
    }
  }
  for (int round = 0; round < 20'000; ++round) {
    wire::Member m = wire::testing::random_member(r);
    std::string& text = r.chance(0.5) ? m.name : m.address.host;
    text.insert(r.below(text.size() + 1), random_bytes(3));
    judge(wire::encode_message(wire::Gossip{{m}, false, {}}));
  }
  CHECK(accepted > 1000);
  CHECK(rejected > 1000);
}

TEST_CASE("a full disk is an error, and the cache stays as it was") {
  const TemporaryFolder folder;
  const auto cache = open_cache(folder);
  std::filesystem::create_directory(folder.file("peers.json"));
  const Status written = cache->write(to_json(small_swarm()));
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().message.find("peers.json") != std::string::npos);
  std::filesystem::remove(folder.file("peers.json"));
  CHECK(cache->write(to_json(small_swarm())).ok());  // the write is retried, although the text is the same
}

TEST_CASE("a writer killed at any moment leaves a readable cache, and temporary files only for a while") {
  const TemporaryFolder folder;
  { REQUIRE(open_cache(folder)->write(to_json(small_swarm(1))).ok()); }
  for (int life = 0; life < 40; ++life) {
    int told[2];
    REQUIRE(::pipe(told) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto cache = PeerCache::open(folder.path());
      if (!cache) ::_exit(1);
      for (std::uint16_t i = 0;; ++i) {
        // Alternate small and large, so that the rest of an old file would show after a new one.
        if (!(*cache)->write(to_json(small_swarm(i % 2 == 0 ? 1000 : 2)))) ::_exit(2);
        if (::write(told[1], "x", 1) != 1) ::_exit(3);
      }
    }
    ::close(told[1]);
    char told_text;
    for (int i = 0; i < 1 + life % 4; ++i) REQUIRE(::read(told[0], &told_text, 1) == 1);
    ::usleep(static_cast<useconds_t>(life * 53 % 1000));  // during one of the next writes
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    ::close(told[0]);

    const auto cache = open_cache(folder);
    const auto loaded = *cache->load("starling");
    INFO(loaded.warning);
    REQUIRE(loaded.swarm.has_value());
    REQUIRE((loaded.swarm->members.size() == 1000 || loaded.swarm->members.size() == 2));
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      INFO(entry.path());
      ++files;
    }
    REQUIRE(files == 2);  // the cache and the lock
  }
}

}  // namespace starling::node
