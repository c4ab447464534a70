// Connecting to the sockets of a process (docs/reference/protocol.md says which there are).
#ifndef NNHAL_UNIX_SOCKET_H_
#define NNHAL_UNIX_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "fd.h"
#include "status.h"
#include "waiting.h"

namespace nnhal {

// Connects to the socket at `path`, of type SOCK_STREAM or SOCK_SEQPACKET. It refuses a process of another user than
// this one, root and `server_uids`: whoever can write to a folder could lay a socket there. DEVICE_UNAVAILABLE if
// nobody listens.
Result<Fd> connect_to(const std::string& path, int type, const std::vector<uid_t>& server_uids = {},
                      const Patience& patience = {});

}  // namespace nnhal

#endif  // NNHAL_UNIX_SOCKET_H_
