// What peers announce on a local network, and what a peer makes of the announcements of strangers.
#include "node/discovery/announcement.h"

#include <string>
#include <vector>

#include "node/discovery/neighborhood.h"
#include "tests/catch.h"

namespace starling::node {
namespace {

using Txt = std::vector<std::string>;

const Announcement kNorth{"birds", PeerId{0x0123456789abcdef}, "00112233445566778899aabbccddeeff"};

// to_txt(kNorth) with another string in the place of the one that begins like it.
Txt txt_with(const std::string& other) {
  Txt txt = to_txt(kNorth);
  for (std::string& string : txt)
    if (string.substr(0, string.find('=')) == other.substr(0, other.find('='))) string = other;
  return txt;
}

Txt txt_of(std::uint64_t id, const std::string& swarm = "birds", const std::string& tag = "open") {
  return to_txt({swarm, PeerId{id}, tag});
}

Sighting sighting(int number, std::uint64_t id, const std::string& host = "192.168.1.7") {
  return {"service " + std::to_string(number), {host, 7100}, txt_of(id)};
}

Instant at_second(int seconds) { return Instant{std::chrono::seconds(seconds)}; }

bool knows_nobody(PeerId) { return false; }

// The neighborhood of the peer 1 of the open swarm 'birds'.
Neighborhood neighborhood() {
  Neighborhood made("birds", PeerId{1});
  made.set_tags({"open"});
  return made;
}

// All that are due now.
std::vector<Address> all_due(Neighborhood& neighborhood, Instant now) {
  std::vector<Address> addresses;
  while (const auto peer = neighborhood.next(now, knows_nobody)) addresses.push_back(peer->address);
  return addresses;
}

}  // namespace

TEST_CASE("what a peer announces is read back") {
  CHECK(to_txt(kNorth) ==
        Txt{"v=1", "swarm=birds", "id=0123456789abcdef", "tag=00112233445566778899aabbccddeeff"});
  CHECK(parse_announcement(to_txt(kNorth)) == kNorth);
  const Announcement open{"a.b-c_D", PeerId{7}, "open"};
  CHECK(parse_announcement(to_txt(open)) == open);
}

TEST_CASE("keys are case-insensitive, the first of two counts, and unknown ones are skipped") {
  const Txt txt = {"color=green",
                   "V=1",
                   "Swarm=birds",
                   "swarm=fish",
                   "ID=0123456789abcdef",
                   "",
                   "tag=00112233445566778899aabbccddeeff",
                   "flag"};
  CHECK(parse_announcement(txt) == kNorth);
}

TEST_CASE("strings that no peer announces are rejected") {
  const std::string zero(1, '\0');
  for (const std::string& bad : Txt{"v=2",
                                    "v=",
                                    "v",
                                    "swarm=",
                                    "swarm=a b",
                                    "swarm=../x",
                                    "swarm=\x1b[2J",
                                    "swarm=" + std::string(65, 'a'),
                                    "swarm=birds" + zero,
                                    "id=",
                                    "id=0123456789abcde",
                                    "id=0123456789abcdef0",
                                    "id=0000000000000000",
                                    "id=0123456789abcdeg",
                                    "id=-123456789abcdef",
                                    "id= 123456789abcdef",
                                    "tag=",
                                    "tag=OPEN",
                                    "tag=opened",
                                    "tag=0011",
                                    "tag=00112233445566778899AABBCCDDEEFF",
                                    "tag=00112233445566778899aabbccddeeff0"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_announcement(txt_with(bad)).has_value());
  }
  CHECK_FALSE(parse_announcement(Txt{}).has_value());
  CHECK_FALSE(parse_announcement(Txt{"garbage", "\xff\xfe", "=", "==", "v=1"}).has_value());
}

TEST_CASE("too many or too long strings are rejected") {
  Txt many = to_txt(kNorth);
  many.resize(kTxtStringsMax, "x=y");
  CHECK(parse_announcement(many).has_value());
  many.emplace_back("x=y");
  CHECK_FALSE(parse_announcement(many).has_value());
  Txt longer = to_txt(kNorth);
  longer.push_back("x=" + std::string(kTxtBytesMax - 2, 'y'));
  CHECK(parse_announcement(longer).has_value());
  longer.back() += 'y';
  CHECK_FALSE(parse_announcement(longer).has_value());
}

TEST_CASE("only addresses of other machines are dialed") {
  for (const char* host :
       {"192.168.1.7", "10.0.0.1", "169.254.7.7", "203.0.113.1", "2001:db8::1", "fd00::7"}) {
    CAPTURE(host);
    CHECK(is_dialable({host, 7100}));
    CHECK_FALSE(is_dialable({host, 0}));
  }
  for (const char* host : {"", "127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "224.0.0.251",
                           "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "ff02::fb",
                           "::ffff:192.168.1.7", "north", "north.local", "192.168.1", "192.168.1.7 "}) {
    CAPTURE(host);
    CHECK_FALSE(is_dialable({host, 7100}));
  }
}

TEST_CASE("a peer tries those of its swarm and key, and counts the others") {
  Neighborhood near = neighborhood();
  near.set_tags({std::string(32, 'a'), std::string(32, 'b')});
  near.see({"a", {"192.168.1.2", 7100}, txt_of(2, "birds", std::string(32, 'a'))});
  near.see({"b", {"192.168.1.3", 7100}, txt_of(3, "birds", std::string(32, 'b'))});
  near.see({"itself", {"192.168.1.4", 7100}, txt_of(1, "birds", std::string(32, 'a'))});
  near.see({"swarm", {"192.168.1.5", 7100}, txt_of(5, "fish", std::string(32, 'a'))});
  near.see({"key", {"192.168.1.6", 7100}, txt_of(6, "birds", std::string(32, 'c'))});
  near.see({"open", {"192.168.1.7", 7100}, txt_of(7)});
  near.see({"garbage", {"192.168.1.8", 7100}, {"v=1"}});
  near.see({"loopback", {"127.0.0.1", 7100}, txt_of(9, "birds", std::string(32, 'a'))});
  const std::vector<Address> due = all_due(near, at_second(0));
  CHECK(due == std::vector<Address>{{"192.168.1.2", 7100}, {"192.168.1.3", 7100}});
  CHECK(near.ignored().other_swarms == 1);
  CHECK(near.ignored().other_keys == 2);
  CHECK(near.ignored().malformed == 1);
  CHECK(near.ignored().not_dialable == 1);
}

TEST_CASE("each address is tried once a minute, also if it is announced on two interfaces") {
  Neighborhood near = neighborhood();
  near.see(sighting(1, 2));
  near.see(sighting(2, 2));
  CHECK(all_due(near, at_second(0)).size() == 1);
  near.see(sighting(3, 2));
  CHECK(all_due(near, at_second(59)).empty());
  CHECK(all_due(near, at_second(60)).size() == 1);
  near.see(sighting(4, 2, "192.168.1.8"));
  CHECK(all_due(near, at_second(61)) == std::vector<Address>{{"192.168.1.8", 7100}});
}

TEST_CASE("the address that has waited longest is tried first") {
  Neighborhood near = neighborhood();
  for (int i = 2; i < 5; ++i)
    near.see(sighting(i, static_cast<std::uint64_t>(i), "192.168.1." + std::to_string(i)));
  CHECK(near.next(at_second(0), knows_nobody)->id == PeerId{2});
  CHECK(near.next(at_second(1), knows_nobody)->id == PeerId{3});
  CHECK(near.next(at_second(100), knows_nobody)->id == PeerId{4});
  CHECK(near.next(at_second(100), knows_nobody)->id == PeerId{2});
}

TEST_CASE("known peers and those whose announcement is gone are not tried") {
  Neighborhood near = neighborhood();
  near.see(sighting(2, 2));
  near.see(sighting(3, 3, "192.168.1.3"));
  CHECK_FALSE(near.next(at_second(0), [](PeerId) { return true; }).has_value());
  near.lose("service 2");
  CHECK(near.next(at_second(0), knows_nobody)->id == PeerId{3});
  near.clear();
  CHECK(all_due(near, at_second(100)).empty());
}

TEST_CASE("an announcement that changes replaces the former one") {
  Neighborhood near = neighborhood();
  near.see(sighting(2, 2));
  near.see({"service 2", {"192.168.1.9", 7100}, txt_of(2)});
  CHECK(all_due(near, at_second(0)) == std::vector<Address>{{"192.168.1.9", 7100}});
  near.see({"service 2", {"192.168.1.9", 7100}, txt_of(2, "fish")});
  CHECK(all_due(near, at_second(100)).empty());
}

TEST_CASE("only peers that answered are contacts, at most 16 of them") {
  Neighborhood near = neighborhood();
  for (int i = 2; i < 40; ++i)
    near.see(sighting(i, static_cast<std::uint64_t>(i), "192.168.1." + std::to_string(i)));
  CHECK(near.contacts().empty());
  near.answered({PeerId{7}, {"192.168.1.7", 7100}});
  near.answered({PeerId{7}, {"192.168.1.8", 7100}});  // another peer is announced there
  CHECK(near.contacts() == std::vector<Address>{{"192.168.1.7", 7100}});
  while (const auto peer = near.next(at_second(0), knows_nobody)) near.answered(*peer);
  CHECK(near.contacts().size() == Neighborhood::kContactsMax);
}

TEST_CASE("any number of announcements takes a bounded place") {
  Neighborhood near = neighborhood();
  for (int i = 2; i < 1000; ++i)
    near.see(sighting(i, static_cast<std::uint64_t>(i),
                      "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250)));
  CHECK(all_due(near, at_second(0)).size() == Neighborhood::kSightingsMax);
  CHECK(near.ignored().too_many == 998 - Neighborhood::kSightingsMax);
}

}  // namespace starling::node
