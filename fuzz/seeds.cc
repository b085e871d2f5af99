// Writes seed inputs for the fuzz targets, made by our own encoders: fuzz_seeds FOLDER -> FOLDER/TARGET/N.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/random.h"
#include "tests/wire/random_message.h"

using namespace starling;

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  Random random(1);
  for (std::size_t kind = 0; kind < std::variant_size_v<wire::Message>; ++kind) {
    const auto frame = wire::encode_frame(wire::testing::random_message(random, kind)).value();
    const int number = static_cast<int>(kind);
    write(folder / "messages", number, {frame.begin() + wire::kFrameHeaderBytes, frame.end()});
    write(folder / "frames", number, with_first(1, frame));
  }
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
  return 0;
}
