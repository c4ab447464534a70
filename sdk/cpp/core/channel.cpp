#include "nnhal/client/channel.h"

#include <sys/socket.h>

#include <cerrno>

#include "nnhal/datagram.h"

namespace nnhal::client {
namespace {

// Of all calls and answers (see Numbered in link.proto).
constexpr int kNumberField = 15;

}  // namespace

Result<Channel::Answer> Channel::exchange(Message call, const std::vector<int>& descriptors, const Patience& patience) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_ended_) return Status(Code::kDeviceUnavailable, place_ + " has ended");
  if (Status status = require_silence(); !status.ok()) return end(status);
  if (is_numbered_) call.fixed64(kNumberField, ++last_number_);
  const std::string& bytes = call.encoded();
  const Status sent = send_datagram(socket_.get(), bytes.data(), bytes.size(), descriptors.data(), descriptors.size());
  if (sent.code() == Code::kInvalidArgument) return sent.in(place_);  // a call that is too long: nothing has gone out
  if (!sent.ok()) return end(sent);
  if (Status status = wait_readable(socket_.get(), patience); !status.ok()) return end(status);
  room_.resize(kMaxDatagramBytes);
  Result<Datagram> received = receive_datagram(socket_.get(), room_.data(), room_.size());
  if (!received.ok()) return end(received.status());
  switch (received->kind) {
    case Datagram::Kind::kMessage: break;
    case Datagram::Kind::kNoRoom:
      return end({Code::kResourceExhaustedTransient, "no descriptor is left for those that came"});
    case Datagram::Kind::kTooLong:
    case Datagram::Kind::kTooMany:
      return end({Code::kGeneralFailure, "an answer that is too long, or has too many descriptors"});
    default: return end({Code::kDeviceUnavailable, "the other side has closed the socket"});
  }
  Answer answer{room_.substr(0, received->size), std::move(received->descriptors)};
  if (!is_numbered_) return answer;
  std::uint64_t number = 0;
  for (FieldReader reader(answer.bytes); reader.next();)
    if (reader.field() == kNumberField) number = reader.fixed64();
  if (number == last_number_) return answer;
  return end({Code::kGeneralFailure,
              "an answer with number " + std::to_string(number) + ", expected " + std::to_string(last_number_)});
}

void Channel::end_sending() {
  has_ended_ = true;
  ::shutdown(socket_.get(), SHUT_WR);
}

bool Channel::has_ended() const { return has_ended_ || has_hung_up(socket_.get()); }

// The first failure is told as it is; what comes after it finds the channel closed.
Status Channel::end(const Status& reason) {
  has_ended_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
  return reason.in(place_);
}

// Before a call nothing may be there: it would be taken for the answer.
Status Channel::require_silence() {
  char first;
  const ssize_t seen = ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen > 0) return {Code::kGeneralFailure, "an answer that no call has asked for"};
  return {};  // whether it has ended, sending says
}

}  // namespace nnhal::client
