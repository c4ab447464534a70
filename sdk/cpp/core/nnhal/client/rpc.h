// Calls of one process's methods, over channels of its link. Answers are encoded messages; messages.h decodes them.
#ifndef NNHAL_CLIENT_RPC_H_
#define NNHAL_CLIENT_RPC_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../protobuf.h"
#include "../status.h"
#include "../waiting.h"
#include "channel.h"
#include "link.h"

namespace nnhal::client {

// Safe to use from several threads: each call that is under way has a channel of its own, which later calls use again.
// A call that waits for an execution therefore keeps no other one waiting.
class Rpc {
 public:
  // `link` must outlive it.
  explicit Rpc(Link& link) : link_(link) {}

  // Calls a method such as "FrameworkService/LoadModel". If the process refuses, the status is its own answer
  // (Status::is_answer). DEVICE_UNAVAILABLE if the process has gone. After a deadline, or an interrupt, the channel is
  // closed, by which the process learns that the call is cancelled.
  Result<std::string> call(const std::string& method, const Message& request, const Patience& patience = {});

 private:
  Result<std::unique_ptr<Channel>> channel();
  Result<std::string> exchange(const std::string& method, const Message& request, const Patience& patience);

  Link& link_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Channel>> idle_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_RPC_H_
