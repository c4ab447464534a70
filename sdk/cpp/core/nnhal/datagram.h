// Datagrams with descriptors on connected SOCK_SEQPACKET sockets: the link, channels and bells (docs/reference/protocol.md).
#ifndef NNHAL_DATAGRAM_H_
#define NNHAL_DATAGRAM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fd.h"
#include "status.h"

namespace nnhal {

constexpr std::size_t kMaxDatagramBytes = 65536;
constexpr std::size_t kMaxDescriptors = 16;

// What was received.
struct Datagram {
  enum class Kind {
    kMessage,  // `size` bytes, above 0, and `descriptors`
    kEnd,      // the other side has closed the socket, or shut its direction down; or sent an empty datagram
    kNothing,  // only with MSG_DONTWAIT: nothing to receive at the moment
    kTooLong,  // it had more bytes than there was room for
    kTooMany,  // it had more than kMaxDescriptors
    kNoRoom,   // this process has no number left for its descriptors: they are lost
  };
  Kind kind = Kind::kEnd;
  std::size_t size = 0;
  std::vector<Fd> descriptors;
};

// Two connected ends; programs that this one starts do not inherit them. `type` is SOCK_SEQPACKET or SOCK_STREAM.
Result<std::pair<Fd, Fd>> socket_pair(int type);

// Sends one datagram; of `descriptors` the other side gets its own. Fails with DEVICE_UNAVAILABLE if that has gone, and
// with RESOURCE_EXHAUSTED_TRANSIENT if `flags` has MSG_DONTWAIT and its queue is full. Never raises SIGPIPE.
Status send_datagram(int socket, const void* data, std::size_t size, const int* descriptors = nullptr,
                     std::size_t count = 0, int flags = 0);

// Receives one datagram into `room`. The kernel reports a reset once, before datagrams that still wait, so that it is
// passed over: what comes after them is the end. `flags` may have MSG_DONTWAIT.
Result<Datagram> receive_datagram(int socket, void* room, std::size_t capacity, int flags = 0);

// Whether the other side has gone, or has shut its direction down; what it has sent before may still wait.
bool has_hung_up(int socket);

}  // namespace nnhal

#endif  // NNHAL_DATAGRAM_H_
