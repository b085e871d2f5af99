#include "transport/links/link_table.h"

#include <utility>

#include "transport/links/link_table_state.h"

namespace starling::transport {

LinkTable::LinkTable(asio::any_io_executor executor, Transport& transport, Self self, LinkTableEvents events,
                     LinkTableOptions options)
    : state_(std::make_shared<LinkTableState>(std::move(executor), transport, std::move(self),
                                              std::move(events), options)) {
  state_->make_parts();
}

LinkTable::~LinkTable() { state_->close(); }

Result<Address> LinkTable::listen(const Address& at) { return state_->listen(at); }
void LinkTable::set_hello(wire::Hello self) { state_->connector_->set_hello(std::move(self)); }
const wire::Hello& LinkTable::hello() const { return state_->connector_->hello(); }
void LinkTable::send(const Endpoint& to, const wire::Message& message) { state_->send(to, message); }
asio::awaitable<LinkResult<BulkLink>> LinkTable::dial_bulk(Endpoint to) {
  return LinkTableState::dial_bulk(state_, std::move(to));
}
void LinkTable::answer_call(const Endpoint& to, wire::Purpose purpose, std::uint64_t number) {
  state_->calls_->answer(to, purpose, number);
}
asio::awaitable<LinkStatus> LinkTable::try_dial(Endpoint to) {
  return Calls::try_dial(state_->calls_, std::move(to));
}
void LinkTable::note(const LinkError& error) { state_->counters_->note(error.kind); }
asio::awaitable<void> LinkTable::shut_down(Duration at_most) {
  return LinkTableState::shut_down(state_, at_most);
}
void LinkTable::close() { state_->close(); }
LinkCounters LinkTable::counters() const { return state_->counters(); }
std::size_t LinkTable::links() const { return state_->by_id_.size(); }
std::size_t LinkTable::handshakes() const { return state_->connector_->handshakes(); }
std::size_t LinkTable::unlinked() const { return state_->unlinked(); }
std::size_t LinkTable::calls() const { return state_->calling_.size() + state_->calls_->waiting(); }

}  // namespace starling::transport
