#include "nnhal/fence.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>

#include "nnhal/datagram.h"

namespace nnhal {
namespace {

Status in_error(const std::string& name) { return {Code::kGeneralFailure, name + " is in error"}; }

}  // namespace

std::string fault_of_pair(const Fd& end) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(end.get(), SOL_SOCKET, SO_TYPE, &type, &size) < 0) return "not a socket";
  if (type != SOCK_STREAM && type != SOCK_SEQPACKET) {
    const std::string name = type == SOCK_DGRAM ? "SOCK_DGRAM" : std::to_string(type);
    return "a socket of type " + name + ", on which the end of the other side is not seen";
  }
  for (const bool is_peer : {false, true}) {
    sockaddr_un address{};
    size = sizeof address;
    auto* const target = reinterpret_cast<sockaddr*>(&address);
    if ((is_peer ? ::getpeername(end.get(), target, &size) : ::getsockname(end.get(), target, &size)) < 0)
      return "a socket that is not connected";
    // An end of a pair has no name, and neither has the other side. Sockets of other families have addresses.
    if (address.sun_family != AF_UNIX || size > offsetof(sockaddr_un, sun_path))
      return "a socket with an address, or connected to one, as links are";
  }
  return "";
}

Result<Fence> Fence::received(Fd end) {
  const std::string fault = fault_of_pair(end);
  if (!fault.empty()) return Status(Code::kInvalidArgument, "a fence that is " + fault);
  return Fence(std::move(end));
}

FenceState Fence::state() const {
  char byte;
  // The byte is left there, since others wait for the same one.
  const ssize_t seen = ::recv(end_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen == 1) return FenceState::kSignalled;
  return seen < 0 && (errno == EAGAIN || errno == EINTR) ? FenceState::kPending : FenceState::kError;
}

Status Fence::wait(std::int64_t deadline_ns) const { return wait_for_all({this}, deadline_ns, -1, {"a fence"}); }

void Fence::cancel() { ::shutdown(end_.get(), SHUT_RD); }

void Signal::send() {
  const char signalled = 1;
  // If it fails, nobody holds the fence any more.
  if (end_) (void)::send(end_.get(), &signalled, 1, MSG_NOSIGNAL);
  end_.reset();
}

bool Signal::is_cancelled() const {
  if (!end_) return false;
  // It only asks whether there is a way to the other end, and sends nothing.
  if (::send(end_.get(), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) == 0) return false;
  pollfd closed{end_.get(), 0, 0};
  return ::poll(&closed, 1, 0) == 0;
}

Result<std::pair<Signal, Fence>> make_fence() {
  Result<std::pair<Fd, Fd>> ends = socket_pair(SOCK_STREAM);
  if (!ends.ok()) return ends.status();
  return std::pair<Signal, Fence>(Signal(std::move(ends->first)), Fence(std::move(ends->second)));
}

Status wait_for_all(const std::vector<const Fence*>& fences, std::int64_t deadline_ns, int interrupt,
                    const std::vector<std::string>& names) {
  const auto name = [&](std::size_t index) {
    return index < names.size() ? names[index] : "fence " + std::to_string(index);
  };
  std::vector<pollfd> waiting{{interrupt, POLLIN, 0}};  // poll() passes -1 over
  std::size_t pending = 0;
  for (std::size_t index = 0; index < fences.size(); ++index) {
    const FenceState state = fences[index]->state();
    if (state == FenceState::kError) return in_error(name(index));
    const bool waits = state == FenceState::kPending;
    pending += waits;
    waiting.push_back({waits ? fences[index]->fd().get() : -1, POLLIN, 0});
  }
  while (pending) {
    const int ready = ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline_ns));
    if (ready < 0 && errno != EINTR) return Status::of_errno("fences cannot be waited for", errno);
    if (ready <= 0) {
      if (has_passed(deadline_ns))
        return {Code::kMissedDeadlineTransient,
                std::to_string(pending) + " of " + std::to_string(fences.size()) + " fences had not signalled in time"};
      continue;
    }
    if (waiting[0].revents) return {Code::kGeneralFailure, "waiting for fences was interrupted"};
    for (std::size_t index = 0; index < fences.size(); ++index) {
      pollfd& one = waiting[index + 1];
      if (!one.revents) continue;
      const FenceState state = fences[index]->state();
      if (state == FenceState::kError) return in_error(name(index));
      if (state == FenceState::kPending) return {Code::kGeneralFailure, name(index) + " does not behave like a fence"};
      one.fd = -1;
      --pending;
    }
  }
  return {};
}

}  // namespace nnhal
