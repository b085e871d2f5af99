#include "tests/fuzz/seeds.h"

#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "datasets/text/bpe_training.h"
#include "datasets/text/characters.h"
#include "datasets/text/gpt2_files.h"
#include "node/front/answers.h"
#include "tests/fuzz/checkpoint_layout.h"
#include "tests/wire/random_message.h"
#include "training/runs/records/peer_state.h"

namespace starling::fuzz {
namespace {

using Buffer = std::vector<std::byte>;

void write(const std::filesystem::path& folder, int number, const Buffer& bytes) {
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / std::to_string(number), std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Buffer with_first(std::uint8_t byte, const Buffer& rest) {
  Buffer bytes{std::byte{byte}};
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Buffer chunk(wire::ChunkKind kind, Payload payload, std::uint32_t floats, float weight) {
  wire::ChunkHead head;
  head.exchange = 1;
  head.floats = floats;
  head.kind = kind;
  head.payload = payload;
  head.weight = weight;
  std::size_t size = 0;
  if (payload == Payload::top_k) head.entries = 3;
  while (!wire::payload_fits(head, size)) ++size;
  const Buffer values(size, std::byte{0x3c});
  Buffer frame(wire::kChunkPrefixBytes);
  wire::write_chunk_prefix(head, values, std::span(frame).first<wire::kChunkPrefixBytes>());
  frame.insert(frame.end(), values.begin(), values.end());
  return frame;
}

// Sessions of the gossip target of random steps.
void write_gossip(const std::filesystem::path& folder, Random& random) {
  for (int number = 0; number < 24; ++number) {
    Buffer bytes(512 << (number % 5));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    write(folder, number, bytes);
  }
}

void write_http(const std::filesystem::path& folder) {
  const auto text = [&](int number, std::uint8_t kind, const std::string& request) {
    const auto bytes = std::as_bytes(std::span(request));
    write(folder, number, with_first(kind, {bytes.begin(), bytes.end()}));
  };
  text(0, 0, "2001:db8::1%eth0");
  text(1, 1, "[::1]:7180");
  text(2, 2, node::introduction_json({"there", 7100}));
  text(3, 2, node::topology_request_json("ring"));
  text(4, 2, node::log_level_json("debug"));
  node::PeerStatus status;
  node::MemberStatus member;
  status.name = member.name = "two";
  status.id = member.id = to_string(PeerId{9});
  text(5, 2, node::to_json(status));
  text(6, 2, node::to_json(std::vector{member}));
  text(7, 3, "GET / HTTP/1.1\r\nHost: localhost:7180\r\nSec-Fetch-Site: cross-site\r\n\r\n");
  text(8, 3,
       "POST /api/v1/topology HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\nContent-Type: "
       "application/json; charset=utf-8\r\nContent-Length: 20\r\nAuthorization: Bearer the token\r\nExpect: "
       "100-continue\r\n\r\n{\"topology\": \"ring\"}");
}

// Full checkpoints of SGD and of AdamW, without the check sum, which no mutation would survive.
void write_checkpoints(const std::filesystem::path& folder) {
  const models::Layout layout = checkpoint_layout();
  std::filesystem::create_directories(folder);
  for (int number = 0; number < 3; ++number) {
    training::PeerState state;
    state.parameters.resize(layout.arena_size(), 0.5F);
    for (int worker = 0; worker < number; ++worker) {
      training::WorkerState& saved = state.workers.emplace_back();
      saved.velocity.resize(layout.trained_size(), 0.25F);
      if (number == 2) saved.square = saved.velocity;
      if (worker == 1) saved.following = training::WorkerState::Following{.last = saved.velocity};
      if (worker == 1) saved.images.emplace();
      saved.cursor.order = {2, 0, 1};
    }
    state.loss = 0.5;
    const std::string path = folder / std::to_string(number);
    STARLING_CHECK(training::write_peer_state(path, layout, state, {{"model", "lenet"}}).ok());
    std::ifstream file(path, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (const std::size_t crc = text.find("\"crc32\""); crc != std::string::npos) text[crc + 1] = 'C';
    const auto bytes = std::as_bytes(std::span(text));
    write(folder, number,
          with_first(static_cast<std::uint8_t>(number == 0 ? 0 : 1), {bytes.begin(), bytes.end()}));
  }
}

void write_trainers(const std::filesystem::path& folder) {
  const auto text = [&](int number, std::uint8_t kind, const std::string& lines) {
    const auto bytes = std::as_bytes(std::span(lines));
    write(folder, number, with_first(kind, {bytes.begin(), bytes.end()}));
  };
  text(0, 0,
       "starling-trainer 1.0\nmode copy\nmodel gpt\ndata text\nepoch 60000\nbatch 64\ndevice torch cpu\n"
       "tensor wte.weight bf16 trained 65,128\ntensor mean f32 running 128\ntensor scale f64 frozen -\n"
       "tied head wte.weight\nend");
  text(1, 0, "starling-trainer 1.7\nmode view\ntensor w f32 trained 3\nend");
  text(2, 1, "conv1.weight 6x1x5x5; scale scalar; bn1.running_mean 6 statistic");
}

void write_text(const std::filesystem::path& folder) {
  const auto text = [&](int number, std::uint8_t kind, const std::string& content) {
    const auto bytes = std::as_bytes(std::span(content));
    write(folder, number, with_first(kind, {bytes.begin(), bytes.end()}));
  };
  const std::string rest = std::string(1, '\0') + "the theme, then";
  const std::array<std::string_view, 1> book = {"the theme of the thesis, then the other theme"};
  text(0, 0, datasets::text::train_bpe(book, {.size = 262}).value()->text() + rest);
  text(1, 0, "starling tokenizer 1\ncharacters a 20-7e e9 1f600\n" + rest);
  text(2, 0, "starling tokenizer 1\nbytes\n" + rest);
  std::string vocabulary = "{";
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    datasets::text::append_character(datasets::text::gpt2_character(static_cast<unsigned char>(byte)),
                                     character);
    const bool escaped = character == "\"" || character == "\\";
    vocabulary += (escaped ? "\"\\" : "\"") + character + "\":" + std::to_string(byte) + ",";
  }
  vocabulary += "\"\\u0120t\": 256, \"he\": 257, \"\\ud83d\\ude00\": 258, \"\\u0120the\": 259}";
  text(3, 1, vocabulary + std::string(1, '\0') + "#version: 0.2\nĠ t\nh e\nĠt he\n");
  std::string header(1024, '\0');
  header.replace(0, 8, {'\x88', '\xd8', '\x34', '\x01', '\x01', '\0', '\0', '\0'});
  text(4, 2, header);
}

// A chain, and a graph with a branch, an input and a part that nobody reads.
void write_profiles(const std::filesystem::path& folder) {
  const auto profile = [&](int number, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    write(folder, number, {bytes.begin(), bytes.end()});
  };
  const std::string numbers =
      " -- Linear -- forward_compute_time=1.5, backward_compute_time=2.000, activation_size=1000.0, "
      "parameter_size=40.0\n";
  profile(0, "a" + numbers + "b" + numbers + "\ta -- b\n");
  profile(1,
          "a -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=[8; 8], "
          "parameter_size=0 -- stage_id=1\n" +
              ("b" + numbers) + "c" + numbers + "d" + numbers + "\ta -- b\n\tb -- c\n\tb -- d\n\tc -- d\n");
}

}  // namespace

void write_seeds(const std::filesystem::path& folder) {
  Random random(1);
  for (std::size_t kind = 0; kind < std::variant_size_v<wire::Message>; ++kind) {
    const auto frame = wire::encode_frame(wire::testing::random_message(random, kind)).value();
    const int number = static_cast<int>(kind);
    write(folder / "messages", number, {frame.begin() + wire::kFrameHeaderBytes, frame.end()});
    write(folder / "frames", number, with_first(1, frame));
  }
  write_gossip(folder / "gossip", random);
  write_http(folder / "http");
  write_checkpoints(folder / "checkpoint");
  write_trainers(folder / "trainers");
  write_text(folder / "text");
  write_profiles(folder / "profile");
  wire::Hello hello;
  hello.swarm = "fuzz";
  hello.name = "two";
  hello.id = PeerId{9};
  hello.address = {"there", 2};
  hello.key.bytes[0] = std::byte{9};
  for (const std::uint8_t side : {2, 3}) {
    Buffer frames = wire::encode_frame(hello).value();
    write(folder / "handshakes", side, with_first(side, frames));
    const Buffer proof = wire::encode_frame(wire::Proof{}).value();
    frames.insert(frames.end(), proof.begin(), proof.end());
    write(folder / "handshakes", 10 + side, with_first(side, frames));
  }

  int number = 100;
  for (const auto payload : {Payload::f32, Payload::bf16, Payload::int8, Payload::top_k, Payload::none}) {
    const Buffer offer = chunk(wire::ChunkKind::offer, payload, 128, 0.5F),
                 reply = chunk(wire::ChunkKind::reply, payload, 64, 0.5F);
    write(folder / "frames", ++number, with_first(1, offer));
    for (std::uint8_t combination = 0; combination < 13; ++combination) {
      // An offer to answer; a cell lent and a reply to it. Without frame headers.
      Buffer input = {std::byte{combination}, std::byte{0}};
      input.insert(input.end(), offer.begin() + wire::kFrameHeaderBytes, offer.end());
      for (const int byte : {1, 0, 0}) input.push_back(static_cast<std::byte>(byte));
      input.insert(input.end(), reply.begin() + wire::kFrameHeaderBytes, reply.end());
      write(folder / "chunks", ++number, input);
    }
  }
}

}  // namespace starling::fuzz
