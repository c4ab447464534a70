// gRPC calls of one process, over its unix socket. Answers are encoded messages; messages.h decodes them.
#ifndef NNHAL_CLIENT_RPC_H_
#define NNHAL_CLIENT_RPC_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "../protobuf.h"
#include "../status.h"
#include "../waiting.h"
#include "http2.h"

namespace nnhal::client {

// Safe to use from several threads: each call that is under way has a connection of its own, which later calls use
// again. A call that waits for an execution therefore keeps no other one waiting.
class Rpc {
 public:
  // Connects at the first call. `token` is the session's (link.h); calls that describe a device need none.
  Rpc(std::string path, std::string token, std::vector<uid_t> server_uids = {});

  // Calls a method such as "DeviceService/GetType" that answers with one message. If the process refuses, the status is
  // its own answer (Status::is_answer). DEVICE_UNAVAILABLE if the process has gone.
  Result<std::string> call(const std::string& method, const Message& request, const Patience& patience = {});
  // The same for a method that answers with several messages: all of them, once the call has ended.
  Result<std::vector<std::string>> stream(const std::string& method, const Message& request,
                                          const Patience& patience = {});

 private:
  Result<std::unique_ptr<Http2Connection>> connection(const Patience& patience);
  Result<Http2Connection::Answer> exchange(const std::string& method, const std::string& body,
                                           const Patience& patience);

  const std::string path_, token_;
  const std::vector<uid_t> server_uids_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Http2Connection>> idle_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_RPC_H_
