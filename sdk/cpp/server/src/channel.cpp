#include "channel.h"

#include <poll.h>
#include <sys/socket.h>

#include "descriptors.h"
#include "failures.h"

namespace nnhal {

std::int64_t Channel::spin_ns = 0;

Channel::~Channel() {
  shutdown();
  // What was not read would reset the channel before the other side has read the last answer.
  char rest;
  while (recv(socket_.get(), &rest, 1, MSG_DONTWAIT) > 0) {
  }
  if (other_end_ != 0) forget_channel_end(other_end_);
}

std::pair<std::shared_ptr<Channel>, Fd> Channel::make() {
  auto [ours, theirs] = value_of(socket_pair(SOCK_SEQPACKET));
  const std::uint64_t end = remember_channel_end(theirs);
  return {std::make_shared<Channel>(std::move(ours), end), std::move(theirs)};
}

bool Channel::receive(Message& into, bool keeps_descriptors) const {
  const auto receive = [this, &into](int flags) {
    return receive_datagram(socket_.get(), into.bytes.data(), into.bytes.size(), flags);
  };
  Result<Datagram> got = receive(spin_ns > 0 ? MSG_DONTWAIT : 0);
  for (std::int64_t until = spin_ns > 0 ? now_ns() + spin_ns : 0;
       got.ok() && got->kind == Datagram::Kind::kNothing;) {
    const bool looks_on = until > now_ns();
    got = receive(looks_on ? MSG_DONTWAIT : 0);
    if (!looks_on && got.ok() && got->kind == Datagram::Kind::kNothing) return false;  // a timeout of the socket's own
  }
  if (!got.ok()) return false;
  switch (got->kind) {
    case Datagram::Kind::kMessage:
      into.size = got->size;
      into.descriptors.clear();
      if (keeps_descriptors) into.descriptors = std::move(got->descriptors);
      return true;
    case Datagram::Kind::kTooLong:
      throw ProtocolError(text("the message has more than ", kMaxDatagramBytes, " bytes"));
    case Datagram::Kind::kTooMany:
      throw ProtocolError(text("the message has more than ", kMaxDescriptors, " descriptors"));
    case Datagram::Kind::kNoRoom:
      throw DescriptorsLost();
    default:  // the end, unless the datagram was empty
      if (got->kind == Datagram::Kind::kNothing || hung_up()) return false;
      throw ProtocolError(text("the message has 0 bytes, expected 1 to ", kMaxDatagramBytes));
  }
}

bool Channel::send(const std::string& message, const int* descriptors, std::size_t count) const {
  return send_datagram(socket_.get(), message.data(), message.size(), descriptors, count).ok();
}

bool Channel::send_at_once(const std::string& message) const {
  return send_datagram(socket_.get(), message.data(), message.size(), nullptr, 0, MSG_DONTWAIT).ok();
}

bool Channel::hung_up() const { return has_hung_up(socket_.get()); }

bool Channel::closed() const {
  pollfd watched{socket_.get(), 0, 0};
  return ::poll(&watched, 1, 0) > 0;
}

void Channel::shutdown() const { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace nnhal
