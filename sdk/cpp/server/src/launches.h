// Fenced executions: checked in full now, begun when their fences have signalled; then they signal a fence of their own.
#ifndef NNHAL_SERVER_LAUNCHES_H_
#define NNHAL_SERVER_LAUNCHES_H_

#include <atomic>
#include <optional>

#include "answers.h"
#include "nnhal/fence.h"
#include "runs.h"

namespace nnhal {

constexpr int kMostFences = 256;

// A fence to wait for, and what messages call it.
struct AwaitedFence {
  Fence fence;
  std::string name;
};

// Takes a descriptor for a fence. Throws INVALID_ARGUMENT if it is none.
AwaitedFence awaited_fence(Fd descriptor, const std::string& name);

// How one launched execution ended, for its client.
class LaunchCallback : public Object {
 public:
  const char* kind() const override { return "callback"; }
  // Throws GENERAL_FAILURE until it has ended.
  v1::GetExecutionInfoResponse info() const;
  void ended(v1::GetExecutionInfoResponse info);

 private:
  mutable std::mutex guard_;
  std::optional<v1::GetExecutionInfoResponse> info_;
};

// One launched execution, or a sync, for which no execution stands: all results of this device are visible when they are there.
class Launch {
 public:
  // Holds the execution. Throws INVALID_ARGUMENT for bad numbers, outputs of unknown size and fences that are in error already;
  // GENERAL_FAILURE if the execution runs already; RESOURCE_EXHAUSTED_TRANSIENT; DEVICE_UNAVAILABLE if the device drains.
  Launch(std::shared_ptr<Session> session, std::shared_ptr<Execution> execution, std::vector<AwaitedFence> fences,
         std::int64_t deadline_ns, std::int64_t duration_ns);
  // One that was not run ends as if it had not been launched.
  ~Launch();

  const std::shared_ptr<LaunchCallback> callback = std::make_shared<LaunchCallback>();
  // The fence that it will signal. Throws RESOURCE_EXHAUSTED_TRANSIENT.
  Fd make_fence();
  // Whether it would be over sooner than another thread could begin it.
  bool is_brief() const { return execution_ != nullptr && fences_.empty() && execution_->is_brief(); }
  // Waits for the fences, runs, and signals.
  void run();

 private:
  void wait() const;
  void execute(v1::GetExecutionInfoResponse& info);
  void leave();

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Execution> execution_;
  const std::vector<AwaitedFence> fences_;
  const std::int64_t deadline_ns_, duration_ns_, launched_ns_ = now_ns();
  std::optional<Signal> signal_;
  bool is_left_ = false;
};

// Runs a launch in a thread of its own.
void start(std::shared_ptr<Launch> launch);

}  // namespace nnhal

#endif  // NNHAL_SERVER_LAUNCHES_H_
