#include "nnhal/client/link.h"

#include <sys/socket.h>

#include <algorithm>

#include "nnhal/datagram.h"
#include "nnhal/unix_socket.h"

namespace nnhal::client {
namespace {

constexpr std::uint64_t kProtocolVersion = 1;
// LinkCapability: a process that does not know it passes over the field, and does not say that it has it.
constexpr int kNumberedAnswers = 1, kLengthsByRun = 2, kCallsCapability = 3;
enum Field { kHello = 1, kPut = 2, kTake = 3, kDrop = 4, kRefusal = 5, kCalls = 6 };  // of LinkRequest and LinkReply alike

// A refusal has a status if it is the process's own answer; otherwise the protocol itself was broken.
Status refusal(std::string_view encoded, const std::string& path) {
  int code = 0;
  std::string message;
  for (FieldReader reader(encoded); reader.next();) {
    if (reader.field() == 1) message = reader.text();
    if (reader.field() == 3) code = reader.integer32();
  }
  const std::string text = path + ": the link refuses: " + message;
  return code ? Status::answered(static_cast<Code>(code), text) : Status(Code::kGeneralFailure, text);
}

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const std::string& path, const Options& options) {
  Result<Fd> connection = connect_to(path, SOCK_SEQPACKET, options.server_uids, {now_ns() + options.answer_ns});
  if (!connection.ok()) return connection.status();
  std::unique_ptr<Link> link(new Link(std::move(*connection), path, options.answer_ns));
  Message hello;
  hello.number(1, kProtocolVersion)
      .bytes(2, options.client_name)
      .numbers(4, std::vector<int>{kNumberedAnswers, kLengthsByRun, kCallsCapability});
  Result<std::string> welcome = link->exchange(Message().message(kHello, hello), kHello);
  if (!welcome.ok()) return welcome.status();
  std::vector<int> capabilities;
  bool has_token = false;
  FieldReader reader(*welcome);
  while (reader.next()) {
    if (reader.field() == 5) reader.append_to(capabilities);
    if (reader.field() == 1) has_token = !reader.bytes().empty();
    if (reader.field() == 3) link->per_message_ = std::clamp<std::size_t>(reader.number(), 1, kMaxDescriptors);
  }
  for (const int capability : capabilities) {
    link->numbers_answers_ |= capability == kNumberedAnswers;
    link->serves_calls_ |= capability == kCallsCapability;
  }
  if (!reader.well_formed() || !has_token)
    return Status(Code::kGeneralFailure, path + ": a Welcome without a token");
  return link;
}

Result<std::uint64_t> Link::put(const Fd& descriptor) {
  Result<std::vector<std::uint64_t>> ids = put(std::vector<const Fd*>{&descriptor});
  if (!ids.ok()) return ids.status();
  return ids->front();
}

Result<std::vector<std::uint64_t>> Link::put(const std::vector<const Fd*>& descriptors) {
  std::vector<std::uint64_t> ids;
  while (ids.size() < descriptors.size()) {
    std::vector<int> numbers;
    for (std::size_t at = ids.size(); at < descriptors.size() && numbers.size() < per_message_; ++at)
      numbers.push_back(descriptors[at]->get());
    const Message put = Message().number(1, numbers.size());
    Result<std::string> done = exchange(Message().message(kPut, put), kPut, numbers);
    if (!done.ok()) return done.status();
    const std::size_t before = ids.size();
    FieldReader reader(*done);
    while (reader.next())
      if (reader.field() == 1) reader.append_to(ids);
    if (!reader.well_formed() || ids.size() - before != numbers.size())
      return Status(Code::kGeneralFailure, path_ + ": " + std::to_string(ids.size() - before) + " ids for " +
                                               std::to_string(numbers.size()) + " descriptors");
  }
  return ids;
}

Result<Fd> Link::take(std::uint64_t id) {
  return fetch(kTake, Message().number(1, id), "descriptor " + std::to_string(id));
}

Result<Fd> Link::fetch(int field, const Message& request, const std::string& what) {
  std::vector<Fd> received;
  Result<std::string> done = exchange(Message().message(field, request), field, {}, &received);
  if (!done.ok()) return done.status();
  if (received.size() != 1)
    return Status(Code::kGeneralFailure,
                  path_ + ": " + std::to_string(received.size()) + " descriptors came with " + what);
  return std::move(received.front());
}

Result<Fd> Link::open_calls() {
  if (!serves_calls_)
    return Status(Code::kGeneralFailure,
                  path_ + ": the process serves no calls over its link: expected a framework of this version or later");
  const std::string what = "a channel of calls";
  return require_channel(fetch(kCalls, Message(), what), what);
}

Result<Fd> Link::take_channel(std::uint64_t id) {
  return require_channel(take(id), "descriptor " + std::to_string(id));
}

Result<Fd> Link::require_channel(Result<Fd> taken, const std::string& what) const {
  if (!taken.ok()) return taken;
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(taken->get(), SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
    return Status(Code::kGeneralFailure,
                  path_ + ": " + what + " is no channel: expected a SOCK_SEQPACKET socket");
  return taken;
}

Status Link::drop(const std::vector<std::uint64_t>& ids) {
  if (ids.empty()) return {};
  return exchange(Message().message(kDrop, Message().numbers(1, ids)), kDrop).status();
}

bool Link::has_ended() const { return has_hung_up(connection_.get()); }

Result<std::string> Link::exchange(const Message& request, int expected, const std::vector<int>& sent,
                                   std::vector<Fd>* received) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string& bytes = request.encoded();
  const Status status = send_datagram(connection_.get(), bytes.data(), bytes.size(), sent.data(), sent.size());
  // A process without room for a link refuses it unasked and closes it. Its last words are still there to be read.
  if (!status.ok() && status.code() != Code::kDeviceUnavailable) return status.in(path_);
  if (Status waited = wait_readable(connection_.get(), {now_ns() + answer_ns_}); !waited.ok()) {
    // An answer that comes late would be taken for that of the next request.
    ::shutdown(connection_.get(), SHUT_RDWR);
    return waited.in(path_);
  }
  std::string room(kMaxDatagramBytes, '\0');
  Result<Datagram> reply = receive_datagram(connection_.get(), room.data(), room.size());
  if (!reply.ok()) return reply.status().in(path_);
  switch (reply->kind) {
    case Datagram::Kind::kMessage: break;
    case Datagram::Kind::kEnd: return Status(Code::kDeviceUnavailable, path_ + " has closed the link");
    case Datagram::Kind::kNoRoom:
      return Status(Code::kResourceExhaustedTransient, path_ + ": no descriptor is left for those that came");
    default: return Status(Code::kGeneralFailure, path_ + ": a reply that is too long, or has too many descriptors");
  }
  FieldReader reader(std::string_view(room).substr(0, reply->size));
  while (reader.next()) {
    if (reader.field() == kRefusal) return refusal(reader.bytes(), path_);
    if (reader.field() != expected || !reader.is_bytes()) continue;
    if (received) *received = std::move(reply->descriptors);
    return reader.text();
  }
  return Status(Code::kGeneralFailure, path_ + ": a reply that does not belong to the request");
}

}  // namespace nnhal::client
