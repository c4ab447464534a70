#include "link.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "log.h"
#include "nnhal/v1/link.pb.h"
#include "threads.h"

namespace nnhal {
namespace {

constexpr int kMostLinks = 128;
constexpr int kProtocolVersion = 1;
constexpr int kHelloSeconds = 10;
constexpr int kSendSeconds = 5;
constexpr std::size_t kMostNameBytes = 160;

std::string refusal(const std::string& message, bool fatal, Code status = Code::kNone) {
  v1::LinkReply reply;
  reply.mutable_refusal()->set_message(message);
  reply.mutable_refusal()->set_fatal(fatal);
  reply.mutable_refusal()->set_status(wire_status(status));
  return reply.SerializeAsString();
}

void set_timeout(const Channel& channel, int option, int seconds) {
  const timeval time{seconds, 0};
  setsockopt(channel.fd(), SOL_SOCKET, option, &time, sizeof time);
}

// Receives a request with as many descriptors as it announces; returns false at the end of the link.
bool receive(const Channel& channel, Message& datagram, v1::LinkRequest& request) {
  if (!channel.receive(datagram, true)) return false;
  if (!request.ParseFromArray(datagram.bytes.data(), static_cast<int>(datagram.size))) {
    throw ProtocolError(text(datagram.size, " bytes that are not a LinkRequest"));
  }
  const std::size_t expected = request.has_put() ? request.put().count() : 0;
  if (datagram.descriptors.size() != expected) {
    throw ProtocolError(text(datagram.descriptors.size(), " descriptors came with a message that announces ", expected));
  }
  return true;
}

v1::Hello greet(const Channel& channel, Message& datagram) {
  v1::LinkRequest request;
  set_timeout(channel, SO_RCVTIMEO, kHelloSeconds);
  if (!receive(channel, datagram, request)) {
    throw ProtocolError(channel.hung_up() ? "" : text("no Hello came within ", kHelloSeconds, " s"));
  }
  set_timeout(channel, SO_RCVTIMEO, 0);
  if (!request.has_hello()) throw ProtocolError("the first message of a link must be Hello");
  if (request.hello().protocol_version() != kProtocolVersion) {
    throw ProtocolError(
        text("protocol version ", request.hello().protocol_version(), ", expected ", kProtocolVersion));
  }
  return request.hello();
}

std::string welcome(const Session& session, const v1::Hello& hello) {
  v1::LinkReply reply;
  v1::Welcome& answer = *reply.mutable_welcome();
  answer.set_session_token(session.token);
  answer.set_max_message_bytes(kMaxDatagramBytes);
  answer.set_max_descriptors_per_message(kMaxDescriptors);
  answer.set_max_descriptors_per_session(kMostDescriptors);
  for (const int each : hello.capabilities()) {
    if (each == v1::LINK_CAPABILITY_NUMBERED_ANSWERS) answer.add_capabilities(v1::LINK_CAPABILITY_NUMBERED_ANSWERS);
  }
  return reply.SerializeAsString();
}

// Does what a request asks for. `outgoing` travels with the reply.
v1::LinkReply handle(const v1::LinkRequest& request, std::vector<Fd> descriptors, Session& session,
                     Fd& outgoing) {
  v1::LinkReply reply;
  switch (request.request_case()) {
    case v1::LinkRequest::kPut: {
      require_usable(descriptors);
      const auto numbers = session.descriptors.put(std::move(descriptors));
      reply.mutable_put()->mutable_descriptor_ids()->Assign(numbers.begin(), numbers.end());
      break;
    }
    case v1::LinkRequest::kTake:
      outgoing = session.descriptors.take(request.take().descriptor_id());
      reply.mutable_take();
      break;
    case v1::LinkRequest::kDrop:
      session.descriptors.drop({request.drop().descriptor_ids().begin(), request.drop().descriptor_ids().end()});
      reply.mutable_drop();
      break;
    default:
      throw ProtocolError(text("an unexpected message: ", request.has_hello() ? "hello" : "empty"));
  }
  return reply;
}

bool answer(const Channel& channel, Message& datagram, Session& session) {
  v1::LinkRequest request;
  try {
    if (!receive(channel, datagram, request)) return false;
  } catch (const DescriptorsLost& error) {
    datagram.descriptors.clear();
    return channel.send(refusal(error.what(), false, Code::kResourceExhaustedTransient));
  }
  try {
    Fd outgoing;
    const std::string reply =
        handle(request, std::move(datagram.descriptors), session, outgoing).SerializeAsString();
    const int number = outgoing.get();
    return channel.send(reply, &number, outgoing ? 1 : 0);
  } catch (const Failure& failure) {
    return channel.send(refusal(failure.what(), false, failure.code));
  }
}

}  // namespace

LinkServer::LinkServer(std::string path, Sessions& sessions) : path_(std::move(path)), sessions_(sessions) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  unlink(path_.c_str());
  if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path_.c_str(), 0600) != 0 || listen(listener_.get(), kMostLinks) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot listen at " + path_);
  }
}

LinkServer::~LinkServer() { close(); }

void LinkServer::start() {
  threads::start("links", [this] { accept_links(); });
}

void LinkServer::close() {
  if (closing_.exchange(true)) return;
  ::shutdown(listener_.get(), SHUT_RDWR);
  for (const auto& session : sessions_.all()) session->end_link();
  unlink(path_.c_str());
}

void LinkServer::accept_links() {
  while (!closing_) {
    Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) {
      if (closing_) return;
      logs::warning("cannot accept a link reason='", std::strerror(errno), "'");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for want of descriptors: clients wait as long
      continue;
    }
    ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};  // nobody, if the kernel does not say
    socklen_t size = sizeof peer;
    getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
    const auto channel = std::make_shared<Channel>(std::move(connection));
    set_timeout(*channel, SO_SNDTIMEO, kSendSeconds);  // one that sends and never reads ends its own link
    std::string reason;
    if (peer.uid != geteuid() && peer.uid != 0) {
      reason = text("user ", peer.uid, " may not open links here");
    } else if (links_ >= kMostLinks) {
      reason = text(kMostLinks, " links are open, which is the limit");
    }
    const auto session = std::make_shared<Session>(peer.pid, peer.uid);
    try {
      if (!reason.empty()) throw ProtocolError(reason);
      links_++;
      session->end_link = [weak = std::weak_ptr<Channel>(channel)] {
        if (const auto link = weak.lock()) link->shutdown();
      };
      threads::start("a link", [this, channel, session] {
        serve(channel, session);
        links_--;
      });
    } catch (const std::exception& error) {
      logs::warning("link refused client='", session->title(), "' reason='", error.what(), "'");
      channel->send_at_once(refusal(error.what(), true));
    }
  }
}

void LinkServer::serve(std::shared_ptr<Channel> channel, std::shared_ptr<Session> session) {
  Message datagram;
  try {
    const v1::Hello hello = greet(*channel, datagram);
    session->client_name = hello.client_name().substr(0, kMostNameBytes);
    sessions_.opened(session);
    if (channel->send(welcome(*session, hello))) {
      while (!closing_ && answer(*channel, datagram, *session)) {
      }
    }
  } catch (const std::exception& error) {
    if (*error.what() != '\0') {
      logs::warning("link ended: protocol error client='", session->title(), "' reason='", error.what(), "'");
      channel->send(refusal(error.what(), true));
    }
  }
  sessions_.closed(*session);
  session->close();
}

}  // namespace nnhal
