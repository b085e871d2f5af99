#include "datasets/fetch.h"

#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "datasets/catalogue.h"
#include "datasets/download.h"
#include "datasets/readers/tar.h"
#include "datasets/sha256.h"
#include "tests/datasets/files.h"
#include "tests/datasets/mirror.h"

namespace starling::datasets {
namespace {

std::string text_of(std::size_t size, unsigned seed = 1) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>((i * 31 + i / 251 * seed) & 0xff);
  return text;
}

std::string hash_of(const std::string& text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

PublishedFile file_of(const std::string& name, const std::string& content) {
  return {name, content.size(), hash_of(content)};
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

FetchOptions into(const TemporaryFolder& folder, const Mirror& mirror) {
  FetchOptions options;
  options.into = folder.path("set");
  options.base = mirror.base() + "/";
  options.pause = Duration{0};
  return options;
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

TEST_CASE("SHA-256 gives the standard's examples") {
  CHECK(hash_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("every set that can be fetched is in the catalogue, with plausible sizes and hashes") {
  REQUIRE(published_sets().size() >= 5);
  for (const PublishedSet& set : published_sets()) {
    CAPTURE(set.name);
    CHECK(check_url(set.base).ok());
    CHECK(std::any_of(catalogue().begin(), catalogue().end(),
                      [&](const CatalogueEntry& entry) { return entry.name == set.name; }));
    for (const PublishedFile& file : set.files) {
      CHECK(file.size > 1000);
      CHECK(file.sha256.size() == 64);
      CHECK(file.sha256.find_first_not_of("0123456789abcdef") == std::string::npos);
    }
  }
}

TEST_CASE("a set is fetched completely, and only once") {
  const TemporaryFolder folder;
  const std::string a = text_of(100'000), b = text_of(10);
  Mirror mirror({{"/sets/a", {a}}, {"/sets/b", {b}}});
  const PublishedSet set{"few", "http://nowhere.invalid", {file_of("a", a), file_of("b", b)}};
  std::uint64_t seen = 0;
  FetchOptions options = into(folder, mirror);
  options.progress = [&](const PublishedFile& file, std::uint64_t bytes) {
    seen = file.name == "a" ? bytes : seen;
  };
  const auto first = fetch(set, options);
  INFO((first ? "" : first.error().message));
  REQUIRE(first);
  CHECK(first->bytes == 100'010);
  CHECK(first->already_there == 0);
  CHECK(seen == 100'000);
  CHECK(bytes_of(folder.path("set/a")) == a);
  CHECK(bytes_of(folder.path("set/b")) == b);
  CHECK_FALSE(exists(folder.path("set/a.part")));
  const auto again = fetch(set, options);
  REQUIRE(again);
  CHECK(again->already_there == 2);
  CHECK(again->bytes == 0);
  CHECK(mirror.requests().size() == 2);
}

TEST_CASE("a fetch resumes after a broken connection, with or without range support on the server") {
  const std::string a = text_of(50'000);
  const PublishedSet set{"few", "", {file_of("a", a)}};
  SECTION("ranges") {
    const TemporaryFolder folder;
    Mirror mirror({{"/sets/a", {.content = a, .cuts = 2, .cut_after = 20'000}}});
    const auto fetched = fetch(set, into(folder, mirror));
    INFO((fetched ? "" : fetched.error().message));
    REQUIRE(fetched);
    CHECK(fetched->bytes == 50'000);
    CHECK(bytes_of(folder.path("set/a")) == a);
    const auto requests = mirror.requests();
    REQUIRE(requests.size() == 3);
    CHECK(requests[0].range.empty());
    CHECK(requests[1].range == "bytes=20000-");
    CHECK(requests[2].range == "bytes=40000-");
  }
  SECTION("none") {
    const TemporaryFolder folder;
    Mirror mirror({{"/sets/a", {.content = a, .cuts = 1, .cut_after = 20'000, .knows_ranges = false}}});
    const auto fetched = fetch(set, into(folder, mirror));
    INFO((fetched ? "" : fetched.error().message));
    REQUIRE(fetched);
    CHECK(fetched->bytes == 70'000);
    CHECK(bytes_of(folder.path("set/a")) == a);
  }
}

TEST_CASE("a fetch resumes from the part that a broken fetch left") {
  const TemporaryFolder folder;
  const std::string a = text_of(50'000);
  const PublishedSet set{"few", "", {file_of("a", a)}};
  {
    Mirror mirror({{"/sets/a", {.content = a, .cuts = 100, .cut_after = 10'000}}});
    FetchOptions options = into(folder, mirror);
    options.attempts = 2;
    const auto broken = fetch(set, options);
    REQUIRE_FALSE(broken);
    CHECK(broken.error().message ==
          mirror.base() + "/a: the connection broke after 20000 of 50000 bytes; the same command resumes it");
    CHECK_FALSE(exists(folder.path("set/a")));
    CHECK(bytes_of(folder.path("set/a.part")) == a.substr(0, 20'000));
  }
  Mirror mirror({{"/sets/a", {a}}});
  const auto fetched = fetch(set, into(folder, mirror));
  REQUIRE(fetched);
  CHECK(fetched->bytes == 30'000);
  CHECK(mirror.requests().at(0).range == "bytes=20000-");
  CHECK(bytes_of(folder.path("set/a")) == a);
}

TEST_CASE("a part of another file is deleted, and the file is fetched from the start") {
  const TemporaryFolder folder;
  const std::string a = text_of(5'000);
  const PublishedSet set{"few", "", {file_of("a", a)}};
  std::filesystem::create_directory(folder.path("set"));
  for (const std::size_t size : {6'000, 5'000, 300}) {  // of another file
    std::ofstream(folder.path("set/a.part")) << std::string(size, 'x');
    Mirror mirror(std::map<std::string, Mirror::File>{{"/sets/a", {a}}});
    REQUIRE(fetch(set, into(folder, mirror)));
    CHECK(bytes_of(folder.path("set/a")) == a);
    std::filesystem::remove(folder.path("set/a"));
  }
}

TEST_CASE("each failure is one sentence with the file, the reason and the remedy") {
  const TemporaryFolder folder;
  const std::string a = text_of(5'000);
  const PublishedSet set{"few", "", {file_of("a", a)}};
  const auto why = [&](Mirror::File file, std::string path = "/sets/a") {
    Mirror mirror({{std::move(path), std::move(file)}});
    FetchOptions options = into(folder, mirror);
    options.attempts = 2;
    const auto fetched = fetch(set, options);
    REQUIRE_FALSE(fetched);
    CHECK_FALSE(exists(folder.path("set/a")));
    std::string message = fetched.error().message;
    const std::size_t at = message.find(mirror.base());
    REQUIRE(at == 0);
    return message.substr(mirror.base().size());
  };
  CHECK(why({a}, "/sets/elsewhere") == "/a: the server has no such file (404)");
  CHECK(why({.content = a, .status = 403}) == "/a: the server answered with status 403");
  CHECK(why({.content = a, .status = 503}) == "/a: the server answered with status 503");
  CHECK(why({text_of(4'999)}) == "/a has 4999 bytes, but the published file has 5000; try a mirror (--from)");
  CHECK(why({.content = text_of(9'000), .tells_length = false}).find("but the published file has 5000") !=
        std::string::npos);
  CHECK(why({text_of(5'000, 2)}) == "/a is not the published file: its SHA-256 is " +
                                        hash_of(text_of(5'000, 2)) + ", not " + hash_of(a) +
                                        "; it was deleted; try a mirror (--from)");
  CHECK_FALSE(exists(folder.path("set/a.part")));

  FetchOptions nobody;
  nobody.into = folder.path("set");
  nobody.base = "http://127.0.0.1:1";
  nobody.attempts = 1;
  const auto refused = fetch(set, nobody);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "http://127.0.0.1:1/a: cannot connect");
}

TEST_CASE("an existing file with other content is not changed") {
  const TemporaryFolder folder;
  const std::string a = text_of(5'000);
  std::filesystem::create_directory(folder.path("set"));
  std::ofstream(folder.path("set/a")) << "mine";
  Mirror mirror({{"/sets/a", {a}}});
  const auto fetched = fetch({"few", "", {file_of("a", a)}}, into(folder, mirror));
  REQUIRE_FALSE(fetched);
  CHECK(contains(fetched.error().message, "already exists and is not the published file"));
  CHECK(bytes_of(folder.path("set/a")) == "mine");
  CHECK(mirror.requests().empty());
}

TEST_CASE("a full disk is detected before the fetch, and also during it") {
  const TemporaryFolder folder;
  const std::string a = text_of(200'000);
  Mirror mirror({{"/sets/a", {a}}});
  PublishedSet huge{"few", "", {file_of("a", a)}};
  huge.files[0].size = std::uint64_t{1} << 60;
  const auto none = fetch(huge, into(folder, mirror));
  REQUIRE_FALSE(none);
  CHECK(contains(none.error().message, "free, and few needs 1152921504606 MB; free some space"));
  CHECK(mirror.requests().empty());

  // A file size limit acts like a full disk: the write fails at the same place.
  const PublishedSet set{"few", "", {file_of("a", a)}};
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 50'000, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);
  const auto full = fetch(set, into(folder, mirror));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  REQUIRE_FALSE(full);
  CHECK(full.error().message ==
        "'" + folder.path("set/a.part") +
            "' cannot be written: File too large; the part that is present is kept, and the same command "
            "resumes it");
  CHECK(bytes_of(folder.path("set/a.part")) == a.substr(0, 50'000));
  const auto fetched = fetch(set, into(folder, mirror));
  REQUIRE(fetched);
  CHECK(fetched->bytes == 150'000);
  CHECK(bytes_of(folder.path("set/a")) == a);
}

// One entry of an archive.
std::string tar_entry(const std::string& name, const std::string& content, char kind = '0') {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  put(0, name);
  put(124, size);
  put(156, std::string(1, kind));
  put(257, "ustar");
  put(148, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char digits[9];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, digits);
  block[154] = '\0';
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}

TEST_CASE("an archive's files are unpacked, and the archive is deleted") {
  const TemporaryFolder folder;
  const std::string one = text_of(70'000), two = text_of(512),
                    tar = tar_entry("inner/", "", '5') + tar_entry("inner/readme", "not wanted") +
                          tar_entry("inner/one.bin", one) + tar_entry("inner/two.bin", two) +
                          std::string(1024, '\0');
  PublishedSet set{"few", "", {file_of("set.tar", tar)}};
  set.files[0].members = {{"inner/one.bin", one.size()}, {"inner/two.bin", two.size()}};
  Mirror mirror({{"/sets/set.tar", {tar}}});
  const auto fetched = fetch(set, into(folder, mirror));
  INFO((fetched ? "" : fetched.error().message));
  REQUIRE(fetched);
  CHECK(bytes_of(folder.path("set/one.bin")) == one);
  CHECK(bytes_of(folder.path("set/two.bin")) == two);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path("set"))) ++files;
  CHECK(files == 2);
  const auto again = fetch(set, into(folder, mirror));
  REQUIRE(again);
  CHECK(again->already_there == 1);
  CHECK(mirror.requests().size() == 1);

  const TemporaryFolder other;
  set.files[0].members.push_back({"inner/three.bin", 9});
  const auto short_of = fetch(set, into(other, mirror));
  REQUIRE_FALSE(short_of);
  CHECK(contains(short_of.error().message, "contains 2 of the expected 3 files"));
}

TEST_CASE("a file that is not an archive, or a truncated one, is an error") {
  const TemporaryFolder folder;
  const auto unpack = [&](const std::string& text) {
    const std::string path = folder.write("a.tar", FileBytes(text.begin(), text.end()));
    return unpack_tar(
        path, [](const std::string&, std::uint64_t) { return true; },
        [](std::span<const std::uint8_t>) -> Status { return Done{}; });
  };
  const std::string whole = tar_entry("one", text_of(2'000));
  CHECK(unpack(whole + std::string(1024, '\0')).ok());
  for (const std::string& text :
       {std::string("no archive"), text_of(2'048), whole.substr(0, 1'500), whole + whole.substr(0, 100)}) {
    const auto unpacked = unpack(text);
    REQUIRE_FALSE(unpacked);
    CHECK(contains(unpacked.error().message, "is not a tar archive, or it is truncated"));
  }
}

TEST_CASE("a list of files is read line by line, and a bad line is reported") {
  const std::string sum(64, 'a');
  const auto files = parse_file_list(sum + " 12 one.gz\n\n" + sum + "  7   two\n");
  REQUIRE(files);
  REQUIRE(files->size() == 2);
  CHECK(files->at(1).name == "two");
  CHECK(files->at(0).size == 12);
  for (const std::string& bad :
       {sum + " x one", sum + " 1 ../up", sum.substr(1) + " 1 one", sum + " 1 one more"}) {
    const auto read = parse_file_list(sum + " 1 one\n" + bad);
    REQUIRE_FALSE(read);
    CHECK(read.error().message == "line 2 is not SHA256 SIZE NAME");
  }
  CHECK(parse_file_list("\n").error().message == "it lists no file");
}

}  // namespace
}  // namespace starling::datasets
