#include "nnhal/datagram.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace nnhal {
namespace {

// The descriptors that came with a datagram. All are taken over, also those of a datagram that is refused.
std::vector<Fd> descriptors_of(msghdr& datagram) {
  std::vector<Fd> found;
  for (cmsghdr* head = CMSG_FIRSTHDR(&datagram); head; head = CMSG_NXTHDR(&datagram, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int number;
      std::memcpy(&number, CMSG_DATA(head) + index * sizeof number, sizeof number);
      found.emplace_back(number);
    }
  }
  return found;
}

}  // namespace

Result<std::pair<Fd, Fd>> socket_pair(int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) < 0) return Status::of_errno("no pair of sockets", errno);
  return std::pair<Fd, Fd>(Fd(ends[0]), Fd(ends[1]));
}

Status send_datagram(int socket, const void* data, std::size_t size, const int* descriptors, std::size_t count,
                     int flags) {
  if (size == 0 || size > kMaxDatagramBytes)  // an empty one reads like the end of the socket
    return {Code::kInvalidArgument,
            "a datagram has " + std::to_string(size) + " bytes, expected 1 to " + std::to_string(kMaxDatagramBytes)};
  if (count > kMaxDescriptors)
    return {Code::kInvalidArgument, "a datagram has " + std::to_string(count) + " descriptors, expected at most " +
                                        std::to_string(kMaxDescriptors)};
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr datagram{};
  datagram.msg_iov = &part;
  datagram.msg_iovlen = 1;
  if (count) {
    datagram.msg_control = control;
    datagram.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&datagram);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &datagram, flags | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
    return {Code::kDeviceUnavailable, "the other side has closed the socket"};
  if (errno == EAGAIN) return {Code::kResourceExhaustedTransient, "the other side does not read: its queue is full"};
  return Status::of_errno("a datagram cannot be sent", errno);
}

Result<Datagram> receive_datagram(int socket, void* room, std::size_t capacity, int flags) {
  iovec part{room, capacity};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  msghdr received{};
  ssize_t size;
  bool was_reset = false;
  for (;;) {
    received = {};
    received.msg_iov = &part;
    received.msg_iovlen = 1;
    received.msg_control = control;
    received.msg_controllen = sizeof control;
    size = ::recvmsg(socket, &received, flags | MSG_CMSG_CLOEXEC);
    if (size >= 0) break;
    if (errno == ECONNRESET && !was_reset) {
      was_reset = true;
    } else if (errno != EINTR) {
      break;
    }
  }
  Datagram datagram;
  if (size < 0) {
    if (errno == EAGAIN)
      datagram.kind = Datagram::Kind::kNothing;
    else if (errno != ECONNRESET && errno != ENOTCONN)
      return Status::of_errno("a datagram cannot be received", errno);
    return datagram;
  }
  datagram.descriptors = descriptors_of(received);
  datagram.size = static_cast<std::size_t>(size);
  if (received.msg_flags & MSG_CTRUNC) {
    const bool is_full = datagram.descriptors.size() >= kMaxDescriptors;
    datagram.kind = is_full ? Datagram::Kind::kTooMany : Datagram::Kind::kNoRoom;
  } else if (received.msg_flags & MSG_TRUNC) {
    datagram.kind = Datagram::Kind::kTooLong;
  } else if (size > 0) {
    datagram.kind = Datagram::Kind::kMessage;
  }
  return datagram;
}

bool has_hung_up(int socket) {
  pollfd seen{socket, POLLRDHUP, 0};
  return ::poll(&seen, 1, 0) > 0;
}

}  // namespace nnhal
