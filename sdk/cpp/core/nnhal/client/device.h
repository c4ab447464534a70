// A session with a device process, and the ways of executing on it: calls, bursts, run channels and launches.
#ifndef NNHAL_CLIENT_DEVICE_H_
#define NNHAL_CLIENT_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../fence.h"
#include "../status.h"
#include "../waiting.h"
#include "channel.h"
#include "link.h"
#include "messages.h"
#include "model.h"
#include "rpc.h"

namespace nnhal::client {

// Executions over a burst's channel, or over a run channel. It runs one at a time, and refuses a second one. When it
// goes, the burst is released on the device.
class Burst {
 public:
  // Takes over a socket; `is_numbered` is what the session has agreed on.
  Burst(Fd socket, std::string place, bool is_numbered) : channel_(std::move(socket), std::move(place), is_numbered) {}

  // Runs a reusable execution. `deadline_ns` is the device's, and `patience` this side's: a device that has missed its
  // deadline says so itself, and one that has stopped says nothing.
  Result<ExecutionResult> run(std::int64_t execution, std::int64_t deadline_ns = kNoTime,
                              const Patience& patience = {});
  // Executes a request once. `tokens` name its pools, -1 for one that is not to be cached.
  Result<ExecutionResult> execute(const Request& request, const std::vector<std::int64_t>& tokens,
                                  std::int64_t deadline_ns = kNoTime, const Patience& patience = {});
  // Has the device end the run under way, from any thread. The run still returns, with what the device says; afterwards
  // the burst is of no use.
  void stop() { channel_.end_sending(); }
  bool has_ended() const { return channel_.has_ended(); }

 private:
  Result<ExecutionResult> exchange(const Message& call, const Patience& patience);
  Channel channel_;
  std::atomic_flag is_busy_ = ATOMIC_FLAG_INIT;
};

// Launches of the reusable executions of a session. Safe to use from several threads.
class Launcher {
 public:
  Launcher(Fd socket, std::string place, bool is_numbered)
      : channel_(std::move(socket), std::move(place), is_numbered) {}

  // Launches an execution that begins when all the fences have signalled, at most 16. Returns the fence that it will
  // signal, or none if it has ended already. `duration_ns` counts from the last fence on.
  Result<std::optional<Fence>> launch(std::int64_t execution, const std::vector<const Fence*>& wait_for = {},
                                      std::int64_t deadline_ns = kNoTime, std::int64_t duration_ns = kNoTime,
                                      const Patience& patience = {});
  // How the last launch of an execution ended. GENERAL_FAILURE until it has.
  Result<ExecutionInfo> info(std::int64_t execution, const Patience& patience = {});
  bool has_ended() const { return channel_.has_ended(); }

 private:
  // The field of the answer that belongs to the call, and its descriptors.
  Result<Channel::Answer> exchange(const Message& call, int expected, const std::vector<int>& descriptors,
                                   const Patience& patience);
  Channel channel_;
};

// Safe to use from several threads. Objects are named by handles, which end with the session at the latest.
class Device {
 public:
  // `directory` is the process's endpoint.
  static Result<std::unique_ptr<Device>> open(const std::string& directory, const Link::Options& options = {});

  Link& link() { return *link_; }
  Rpc& rpc() { return rpc_; }

  Result<std::string> version();
  // Whether the device can do each operation of the main subgraph.
  Result<std::vector<bool>> supported_operations(const Model& model);
  // Prepares a model and returns its handle. `preference` and `priority` have the HAL's numbers.
  Result<std::int64_t> prepare(const Model& model, int preference = 1, int priority = 1,
                               std::int64_t deadline_ns = kNoTime, const Patience& patience = {});
  Result<ExecutionResult> execute(std::int64_t prepared_model, const Request& request,
                                  std::int64_t deadline_ns = kNoTime, const Patience& patience = {});
  // Binds a request once, to be run many times.
  Result<std::int64_t> create_execution(std::int64_t prepared_model, const Request& request, bool measures = false);
  Result<std::unique_ptr<Burst>> open_burst(std::int64_t prepared_model);
  // A channel that runs this execution only, and can be handed to another process.
  Result<std::unique_ptr<Burst>> open_run_channel(std::int64_t execution);
  Result<std::unique_ptr<Launcher>> open_launcher();
  Status release_prepared_model(std::int64_t prepared_model);
  Status release_execution(std::int64_t execution);

 private:
  Device(std::unique_ptr<Link> link, const std::string& directory, const Link::Options& options)
      : link_(std::move(link)), rpc_(directory + "/device.sock", link_->token(), options.server_uids) {}
  // Calls a method whose answer names one number.
  Result<std::int64_t> call_for(const std::string& method, const Message& request, int field);

  std::unique_ptr<Link> link_;
  Rpc rpc_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_DEVICE_H_
