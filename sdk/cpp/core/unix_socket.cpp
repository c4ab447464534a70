#include "nnhal/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nnhal {
namespace {

// Connecting waits while the queue of the process is full. A unix socket cannot be polled for that; SO_SNDTIMEO bounds
// it.
void bound_connecting(const Fd& connection, std::int64_t deadline_ns) {
  timeval limit{};
  if (deadline_ns != kNoTime) {
    const std::int64_t left = std::max<std::int64_t>(1000, deadline_ns - now_ns());  // 0 would be no limit
    limit = {static_cast<time_t>(left / 1'000'000'000), static_cast<suseconds_t>(left % 1'000'000'000 / 1000)};
  }
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

Result<Fd> connect_to(const std::string& path, int type, const std::vector<uid_t>& server_uids,
                      const Patience& patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Status(Code::kInvalidArgument,
                  path + ": " + std::to_string(path.size()) + " bytes, expected at most 107 for the path of a socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd connection(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!connection) return Status::of_errno("no socket", errno);
  bound_connecting(connection, patience.deadline_ns);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    if (errno == EAGAIN) return Status(Code::kMissedDeadlineTransient, path + ": nobody has accepted in time");
    return Status(Code::kDeviceUnavailable, Status::of_errno(path, errno).text());
  }
  bound_connecting(connection, kNoTime);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return Status::of_errno(path, errno);
  if (peer.uid != 0 && peer.uid != ::geteuid() &&
      std::find(server_uids.begin(), server_uids.end(), peer.uid) == server_uids.end())
    return Status(Code::kGeneralFailure, path + ": served by user " + std::to_string(peer.uid) +
                                             ", expected this one, root, or one that is allowed");
  return connection;
}

}  // namespace nnhal
