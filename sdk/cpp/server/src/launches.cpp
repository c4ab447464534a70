#include "launches.h"

#include <algorithm>

#include "threads.h"

namespace nnhal {

AwaitedFence awaited_fence(Fd descriptor, const std::string& name) {
  Result<Fence> fence = Fence::received(std::move(descriptor));
  if (!fence.ok()) throw Failure(fence.status().code(), "waiting for " + fence.status().text());
  return {std::move(*fence), name};
}

v1::GetExecutionInfoResponse LaunchCallback::info() const {
  const std::lock_guard<std::mutex> lock(guard_);
  if (!info_) general_failure("the fenced execution has not ended");
  return *info_;
}

void LaunchCallback::ended(v1::GetExecutionInfoResponse info) {
  const std::lock_guard<std::mutex> lock(guard_);
  info_ = std::move(info);
}

Launch::Launch(std::shared_ptr<Session> session, std::shared_ptr<Execution> execution, std::vector<AwaitedFence> fences,
               std::int64_t deadline_ns, std::int64_t duration_ns)
    : session_(std::move(session)), execution_(std::move(execution)), fences_(std::move(fences)),
      deadline_ns_(deadline_ns), duration_ns_(duration_ns) {
  if (deadline_ns < kNoTime || duration_ns < kNoTime) {
    invalid_argument("deadline ", deadline_ns, " ns and duration ", duration_ns, " ns, expected -1 or more each");
  }
  for (const AwaitedFence& each : fences_) {
    if (each.fence.state() == FenceState::kError) invalid_argument(each.name, " to wait for is in error");
  }
  session_->interrupt();  // the run will wait on it
  if (execution_ != nullptr) {
    execution_->require_known_outputs();
    require_ahead(deadline_ns);
    execution_->prepared->device.scheduler.require_open();
    execution_->hold();
  }
  try {
    session_->enter_launch();
  } catch (...) {
    if (execution_ != nullptr) execution_->let_go();
    throw;
  }
}

Launch::~Launch() { leave(); }

void Launch::leave() {
  if (is_left_) return;
  is_left_ = true;
  if (execution_ != nullptr) execution_->let_go();
  session_->leave_launch();
}

Fd Launch::make_fence() {
  auto [signal, fence] = value_of(nnhal::make_fence());
  signal_.emplace(std::move(signal));
  return value_of(fence.fd().duplicate());
}

void Launch::wait() const {
  std::vector<const Fence*> fences;
  std::vector<std::string> names;
  for (const AwaitedFence& each : fences_) {
    fences.push_back(&each.fence);
    names.push_back(each.name);
  }
  if (fences.empty()) return;
  const auto interrupt = session_->interrupt();
  const Status status = wait_for_all(fences, deadline_ns_, interrupt->get(), names);
  if (session_->is_over()) general_failure("waiting was cancelled: the session is over");
  require(status);
}

void Launch::execute(v1::GetExecutionInfoResponse& info) {
  wait();
  if (execution_ == nullptr) return;
  const std::int64_t begun_ns = now_ns();
  std::int64_t deadline_ns = deadline_ns_;
  if (duration_ns_ != kNoTime) {
    const std::int64_t end = duration_ns_ > INT64_MAX - begun_ns ? INT64_MAX : begun_ns + duration_ns_;
    deadline_ns = deadline_ns_ == kNoTime ? end : std::min(end, deadline_ns_);
  }
  const Wanted is_wanted = [this] { return !signal_ || !signal_->is_cancelled(); };
  RunResult result;
  execution_->run_held(deadline_ns, &is_wanted, result, true);
  if (!result.is_sufficient) general_failure("an output did not fit its memory");
  execution_->last_run_ns = now_ns() - begun_ns;
  to_info(result, info);
  if (execution_->measures) {
    info.mutable_timing_launched()->set_time_in_driver_ns(result.in_driver_ns + begun_ns - launched_ns_);
  }
}

void Launch::run() {
  v1::GetExecutionInfoResponse info;
  to_info(RunResult{}, info);
  try {
    execute(info);
  } catch (const std::exception& error) {
    const Failure failure = told(error, "a fenced execution failed");
    info.set_error_status(wire_status(failure.code));
    info.set_message(failure.what());
  }
  // In this order: a client that learns of the end can launch the execution again.
  const bool has_succeeded = info.error_status() == v1::ERROR_STATUS_NONE;
  leave();
  callback->ended(std::move(info));
  if (!signal_) return;
  if (has_succeeded) {
    signal_->send();
  } else {
    signal_->fail();
  }
}

void start(std::shared_ptr<Launch> launch) {
  threads::lend("a fenced execution", [launch = std::move(launch)] { launch->run(); });
}

}  // namespace nnhal
