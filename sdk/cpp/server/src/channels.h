// Serving the channels of sessions: bursts, run channels and launch channels. See docs/link.md.
#ifndef NNHAL_SERVER_CHANNELS_H_
#define NNHAL_SERVER_CHANNELS_H_

#include "runs.h"

namespace nnhal {

// Each opens a channel, serves it until either side closes it, and returns the id by which the client takes its end from the
// link. Throws RESOURCE_EXHAUSTED_TRANSIENT.
std::uint64_t serve_burst(std::shared_ptr<Burst> burst, std::int64_t handle, const std::shared_ptr<Session>& session);
std::uint64_t serve_launches(const std::shared_ptr<Session>& session);

// Runs over run channels, or those that a stage has answered.
struct RunUsage {
  std::int64_t runs = 0, failed_runs = 0, duration_ns = 0;

  void add(bool has_failed, std::int64_t took_ns) {
    (has_failed ? failed_runs : runs)++;
    if (!has_failed) duration_ns += took_ns;
  }
};

// Runs one execution for the process that holds the other end, whatever that sends. Safe to use from several threads.
class RunChannel : public Runner {
 public:
  explicit RunChannel(std::int64_t handle) : handle_(handle) {}

  // Opens a channel in the place of the one before, and returns the id of the client's end.
  std::uint64_t open(const std::shared_ptr<Execution>& execution, const std::shared_ptr<Session>& session);
  void end() override;
  RunUsage usage() const;

 private:
  bool answer(Execution& execution, const std::shared_ptr<Channel>& channel, const Wanted& is_wanted, Message& message,
              class RunCalls& calls, RunResult& result);
  bool is_current(const std::shared_ptr<Channel>& channel) const;

  const std::int64_t handle_;
  mutable std::mutex guard_;
  std::shared_ptr<Channel> channel_;
  RunUsage usage_;
};

// The run channel of an execution, the same one each time. Throws INVALID_ARGUMENT.
std::shared_ptr<RunChannel> run_channel_of(const Session& session, std::int64_t handle);

}  // namespace nnhal

#endif  // NNHAL_SERVER_CHANNELS_H_
