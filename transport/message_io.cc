#include "transport/message_io.h"

#include <array>
#include <utility>

#include "wire/codec.h"

namespace starling::transport {

asio::awaitable<LinkStatus> write_message(Link& link, wire::Message message) {
  const auto frame = wire::encode_frame(message);
  if (!frame.ok()) co_return LinkError{frame.error(), LinkErrorKind::oversize};
  co_return co_await link.write(*frame);
}

asio::awaitable<LinkStatus> write_chunk(Link& link, wire::ChunkHead head, Bytes floats) {
  std::array<std::byte, wire::kChunkPrefixBytes> prefix;
  wire::write_chunk_prefix(head, floats, prefix);
  co_return co_await link.write(prefix, floats);
}

LinkResult<wire::Message> message_in(Link& link, const Frame& frame) {
  if (frame.kind != wire::FrameKind::control) {
    link.close();
    return LinkError{{"a chunk where a message is expected"}, LinkErrorKind::malformed};
  }
  auto message = wire::decode_message(frame.body);
  if (!message.ok()) {
    link.close();
    return LinkError{message.error(), LinkErrorKind::malformed};
  }
  return std::move(*message);
}

asio::awaitable<LinkResult<wire::Message>> read_message(Link& link) {
  const auto frame = co_await link.read();
  if (!frame.ok()) co_return frame.error();
  co_return message_in(link, *frame);
}

}  // namespace starling::transport
