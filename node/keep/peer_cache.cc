#include "node/keep/peer_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/program.h"
#include "base/text.h"
#include "training/runs/experiment/settings/effects.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/files.h"
#include "training/runs/records/json.h"
#include "wire/codec.h"

namespace starling::node {
namespace {

using json = training::Json;

// Facts among the settings of a manifest.
constexpr const char* kTensorsKey = "model.tensors";
constexpr const char* kEpochKey = "data.epoch_samples";
// A setting is one line of limited length: a tokenizer is several settings, with ';' for the ends of lines.
constexpr const char* kTokenizerKey = "data.tokenizer";
constexpr const char* kDescriptionKey = "data.description";  // several settings, too

bool has_parts(const std::string& key) { return key == kTokenizerKey || key == kDescriptionKey; }
bool is_fact(const std::string& key) { return key == kTensorsKey || key == kEpochKey || has_parts(key); }

constexpr int kFormat = 1;
constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;
constexpr std::size_t kShownMax = 200;  // bytes of a member in a warning

// A process that was killed during a write leaves its temporary file.
void remove_leftovers(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("peers.json.") || name == "peers.json.damaged") continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

constexpr const char* kCheckKey = "check";  // a file of an earlier version has none

// The check sum of the object without its member kCheckKey.
std::string check_sum(const json& object) {
  const std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  return std::to_string(hash64(std::as_bytes(std::span(text))));
}

// The protocol's limits apply, because other members get what is read here.
Status check(const wire::Manifest& manifest) {
  const auto decoded = wire::decode_message(wire::encode_message(wire::Welcome{manifest, Duration{0}, {}}));
  if (!decoded) return decoded.error();
  return Done{};
}

// nullopt: no message of the protocol can carry this member.
std::optional<CachedPeer> read_member(const json& member) {
  const auto text = [&](const char* key) -> std::string {
    const auto found = member.find(key);
    return found != member.end() && found->is_string() ? found->get<std::string>() : " ";
  };
  std::string name = text("name");
  auto address = Address::parse(text("address"));
  if (!address || address->port == 0 || !is_member_name(name)) return std::nullopt;
  return CachedPeer{std::move(name), std::move(*address)};
}

// The format of a text that a later version wrote; nullopt: it is this version's, or no peer's.
std::optional<int> later_format(std::string_view text) {
  try {
    const json object = training::parse_json(text);
    const json& format = object.at("format");
    if (format.is_number_integer() && format.get<int>() > kFormat) return format.get<int>();
  } catch (const json::exception&) {
  }
  return std::nullopt;
}

// `first`: as it is in the file. Only ASCII, because the text of an unusable member may contain anything.
std::string left_out(const json& first, std::size_t count) {
  const std::string shown = first.dump(-1, ' ', true, json::error_handler_t::replace);
  return (count == 1 ? "a member that cannot be used is left out: "
                     : std::to_string(count) + " members that cannot be used are left out, such as ") +
         shown.substr(0, kShownMax) + (shown.size() > kShownMax ? "..." : "");
}

}  // namespace

std::vector<CachedPeer> peers_to_cache(const gossip::Membership& membership,
                                       const std::vector<CachedPeer>& before) {
  std::vector<CachedPeer> peers;
  std::set<Address> seen = {membership.self().address};
  const auto add = [&](const std::string& name, const Address& address) {
    if (address && peers.size() < CachedSwarm::kMembersMax && seen.insert(address).second)
      peers.push_back({name, address});
  };
  for (const gossip::Record& record : membership.others()) {
    if (record.is_live()) add(record.member.name, record.member.address);
  }
  for (const gossip::Record& record : membership.others()) {
    if (record.member.liveness == wire::Liveness::failed) add(record.member.name, record.member.address);
    if (record.member.liveness == wire::Liveness::left) seen.insert(record.member.address);
  }
  for (const CachedPeer& peer : before) add(peer.name, peer.address);
  return peers;
}

namespace {

json array_of(const std::vector<wire::ManifestEntry>& settings) {
  json array = json::array();
  for (const wire::ManifestEntry& setting : settings)
    array.push_back({{"key", setting.key}, {"value", setting.value}});
  return array;
}

std::vector<wire::ManifestEntry> settings_in(const json& array) {
  std::vector<wire::ManifestEntry> settings;
  for (const json& setting : array)
    settings.push_back({setting.at("key").get<std::string>(), setting.at("value").get<std::string>()});
  return settings;
}

wire::Manifest manifest_in(const json& object) {
  wire::Manifest manifest;
  object.at("model").get_to(manifest.model);
  object.at("data").get_to(manifest.data);
  object.at("fingerprint").get_to(manifest.fingerprint);
  object.at("arena_floats").get_to(manifest.arena_floats);
  object.at("seed").get_to(manifest.seed);
  manifest.settings = settings_in(object.at("settings"));
  // Version 0.2.0 wrote the path of the first peer's data here.
  for (wire::ManifestEntry& setting : manifest.settings)
    if (setting.key == "data.source") setting.value = manifest.data;
  // Version 0.3.0 had neither.
  if (const auto facts = object.find("facts"); facts != object.end()) manifest.facts = settings_in(*facts);
  manifest.program = object.value("program", "");
  return manifest;
}

}  // namespace

std::string to_json(const CachedSwarm& cached) {
  STARLING_CHECK(cached.members.size() <= CachedSwarm::kMembersMax);
  json members = json::array();
  for (const CachedPeer& member : cached.members)
    members.push_back({{"name", member.name}, {"address", to_string(member.address)}});
  json object = {{"format", kFormat},
                 {"swarm", cached.swarm},
                 {"manifest",
                  {{"model", cached.manifest.model},
                   {"data", cached.manifest.data},
                   {"fingerprint", cached.manifest.fingerprint},
                   {"arena_floats", cached.manifest.arena_floats},
                   {"seed", cached.manifest.seed},
                   {"settings", array_of(cached.manifest.settings)},
                   {"facts", array_of(cached.manifest.facts)},
                   {"program", cached.manifest.program}}},
                 {"members", members}};
  object[kCheckKey] = check_sum(object);
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<ReadSwarm> parse_cached_swarm(std::string_view text) {
  ReadSwarm read;
  CachedSwarm& cached = read.swarm;
  try {
    json object = training::parse_json(text);
    if (object.at("format").get<int>() != kFormat) return Error{"its format has another version"};
    if (const auto check = object.find(kCheckKey); check != object.end()) {
      const json given = *check;
      object.erase(kCheckKey);
      if (given != check_sum(object)) return Error{"its check sum differs"};
    }
    object.at("swarm").get_to(cached.swarm);
    cached.manifest = manifest_in(object.at("manifest"));
    const auto& members = object.at("members").get_ref<const json::array_t&>();
    if (members.size() > CachedSwarm::kMembersMax)
      return Error{"it names more than " + std::to_string(CachedSwarm::kMembersMax) + " members"};
    const json* unusable = nullptr;
    for (const json& member : members) {
      if (auto usable = read_member(member)) {
        cached.members.push_back(std::move(*usable));
      } else if (unusable == nullptr) {
        unusable = &member;
      }
    }
    if (unusable != nullptr) read.warning = left_out(*unusable, members.size() - cached.members.size());
  } catch (const json::exception&) {
    return Error{"its text was not written by a peer"};
  }
  if (Status sound = check(cached.manifest); !sound) return sound.error();
  return read;
}

wire::Program own_program() {
  std::vector<std::string> known = {kTensorsKey, kEpochKey, kTokenizerKey, kDescriptionKey};
  for (const training::Setting& setting : training::settings()) {
    known.push_back(setting.key);
    for (const std::string& choice : setting.choices)
      if (std::string entry = setting.key + "=" + choice; entry.size() <= wire::kNameBytesMax)
        known.push_back(std::move(entry));
  }
  return {version(), std::move(known)};
}

void change_setting(wire::Manifest& manifest, const std::string& key, const std::string& value) {
  const auto found = std::ranges::find(manifest.settings, key, &wire::ManifestEntry::key);
  if (found != manifest.settings.end())
    found->value = value;
  else
    manifest.settings.push_back({key, value});
}

Status apply_settings(training::Experiment& experiment, const wire::Manifest& manifest) {
  std::vector<std::pair<std::string, std::string>> shared;
  std::set<std::string_view> keys;
  for (const auto& [key, value] : manifest.settings) {
    if (!has_parts(key) && !keys.insert(key).second)
      return Error{"the swarm's settings: " + key.substr(0, 80) + " is given twice"};
    if (is_fact(key)) continue;
    if (training::find_setting(key) == nullptr) {
      return Error{"the swarm's settings: Starling " + version() + " does not know '" + key.substr(0, 80) +
                   "', so the swarm runs a newer version" +
                   (manifest.program.empty() ? "" : ", Starling " + manifest.program) +
                   ": install that one here"};
    }
    shared.emplace_back(key, value);
  }
  return training::apply_shared(experiment, shared);
}

void add_facts(wire::Manifest& manifest, const RunFacts& facts) {
  if (!facts.tensors.empty() && facts.tensors.size() <= wire::kSettingValueBytesMax)
    manifest.settings.push_back({kTensorsKey, facts.tensors});
  if (facts.epoch_samples > 0) manifest.settings.push_back({kEpochKey, std::to_string(facts.epoch_samples)});
  const auto add_parts = [](std::vector<wire::ManifestEntry>& to, const char* key, const std::string& line,
                            std::size_t most) {
    if (line.size() > most) return;
    for (std::size_t at = 0; at < line.size(); at += wire::kSettingValueBytesMax)
      to.push_back({key, line.substr(at, wire::kSettingValueBytesMax)});
  };
  std::string line = facts.tokenizer;
  std::ranges::replace(line, '\n', ';');
  add_parts(manifest.settings, kTokenizerKey, line, kManifestTokenizerBytesMax);
  add_parts(manifest.facts, kDescriptionKey, facts.description, kManifestDescriptionBytesMax);
}

RunFacts facts_of(const wire::Manifest& manifest) {
  RunFacts facts;
  for (const auto* list : {&manifest.settings, &manifest.facts}) {
    for (const auto& [key, value] : *list) {
      if (key == kTensorsKey) facts.tensors = value;
      if (key == kEpochKey) facts.epoch_samples = parse_number<std::uint64_t>(value).value_or(0);
      if (key == kTokenizerKey) facts.tokenizer += value;
      if (key == kDescriptionKey) facts.description += value;
    }
  }
  std::ranges::replace(facts.tokenizer, ';', '\n');
  return facts;
}

std::string ignored_settings(const std::vector<std::string>& given, const training::Experiment& mine,
                             const wire::Manifest& remembered) {
  training::Experiment run = mine;
  if (!apply_settings(run, remembered)) return {};  // joining will fail with the reason
  run.seed = remembered.seed;
  // What is not set is compared by what is used instead.
  const auto value_in = [](const training::Experiment& experiment, const training::Setting& setting) {
    auto value = setting.get(experiment);
    if (value) return value;
    const auto used = training::used_values(experiment);
    const auto found = used.find(setting.key);
    return found == used.end() ? value : found->second;
  };
  std::string list;
  for (const training::Setting& setting : training::settings()) {
    // Another model is an error elsewhere; each peer has its own source of the data.
    if (!setting.shared || setting.key == "model.name" || setting.key == "data.source") continue;
    if (std::find(given.begin(), given.end(), setting.key) == given.end()) continue;
    const auto wanted = value_in(mine, setting), there = value_in(run, setting);
    if (wanted == there) continue;
    list += (list.empty() ? "" : ", ") + setting.key + " = " + wanted.value_or("nothing") + " (it is " +
            there.value_or("not set") + ")";
  }
  return list;
}

Result<int> lock_folder(const std::string& folder, const std::string& file, const std::string& taken) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return Error{"cannot create the folder " + folder + ": " + problem.message()};
  const int lock = ::open((folder + "/" + file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  const int why = errno;
  if (lock >= 0) ::close(lock);
  if (lock >= 0 && why == EWOULDBLOCK) return Error{taken};
  return Error{"cannot lock " + folder + "/" + file + ": " + std::strerror(why)};
}

Result<std::unique_ptr<PeerCache>> PeerCache::open(const std::string& folder) {
  const auto lock =
      lock_folder(folder, "lock", "another running peer uses the folder " + folder + "; each needs its own");
  if (!lock) return lock.error();
  remove_leftovers(folder);
  return std::unique_ptr<PeerCache>(new PeerCache(folder, *lock));
}

PeerCache::~PeerCache() { ::close(lock_); }

Result<PeerCache::Loaded> PeerCache::load(const std::string& swarm) {
  if (std::error_code ignored; !std::filesystem::exists(path(), ignored)) return Loaded{};
  std::string why;
  const auto text = training::read_own_text(path(), kFileBytesMax);
  if (text) {
    if (const auto format = later_format(*text)) {
      return Error{path() + " has format " + std::to_string(*format) + ", and Starling " + version() +
                   " reads format " + std::to_string(kFormat) +
                   ": start the newer version that wrote it, or name another folder"};
    }
    auto read = parse_cached_swarm(*text);
    if (read && read->swarm.swarm != swarm) {
      return Error{path() + " is of the swarm '" + read->swarm.swarm + "', not '" + swarm +
                   "': give --swarm " + read->swarm.swarm + ", or name another folder"};
    }
    if (read)
      return Loaded{std::move(read->swarm), read->warning.empty() ? "" : path() + ": " + read->warning};
    why = read.error().message;
  } else {
    why = text.error().message;
  }
  std::error_code problem;
  std::filesystem::rename(path(), path() + ".damaged", problem);
  return Loaded{std::nullopt, path() + " cannot be used, so the peer continues without it: " + why +
                                  (problem ? "" : "; it is kept as " + path() + ".damaged")};
}

Status PeerCache::write(const std::string& text) {
  if (text == written_) return Done{};
  if (Status written = training::write_text(path(), text); !written) return written;
  if (Status flushed = training::flush_folder(folder_); !flushed) return flushed;
  written_ = text;
  return Done{};
}

}  // namespace starling::node
