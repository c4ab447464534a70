#include "scheduler.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace nnhal {
namespace {

constexpr const char* kCancelled = "cancelled by an operator";

// What goes first is less.
auto rank(const Run& run) {
  return std::make_tuple(-run.priority, run.deadline_ns == kNoTime ? INT64_MAX : run.deadline_ns, run.number);
}

ShownRun shown(const Run& run, bool runs) {
  return {run.number, run.since_ns, run.deadline_ns, run.execution, run.owner, run.priority, runs};
}

}  // namespace

void Scheduler::enter(Run& run) {
  std::unique_lock<std::mutex> lock(guard_);
  run.number = ++numbers_;
  run.since_ns = now_ns();
  if (draining_ && !run.is_reserved) require_open();
  if (free_ > 0) {
    free_--;
    running_.push_back(&run);
    return;
  }
  auto queue = std::find_if(queues_.begin(), queues_.end(), [&run](const Queue& each) { return each.owner == run.owner; });
  if (queue == queues_.end()) queue = queues_.insert(queues_.end(), Queue{run.owner, {}});
  queue->runs.push_back(&run);
  const auto woken = [&run] { return run.is_admitted || run.is_cancelled; };
  if (run.deadline_ns == kNoTime) {
    run.woken.wait(lock, woken);
  } else {
    run.woken.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(0, run.deadline_ns - now_ns())), woken);
  }
  if (run.is_admitted) return;
  withdraw(run);
  if (run.is_cancelled) general_failure(kCancelled);
  std::size_t others = 0;
  for (const Queue& each : queues_) others += each.runs.size();
  throw Failure(Code::kMissedDeadlineTransient,
                text("no worker was free before the deadline; ", others, " other executions wait"));
}

void Scheduler::leave(Run& run) {
  const std::lock_guard<std::mutex> lock(guard_);
  running_.erase(std::find(running_.begin(), running_.end(), &run));
  busy_ns_ += now_ns() - run.since_ns;
  ended_++;
  if (queues_.empty()) {
    free_++;
  } else {
    admit_next();
  }
}

void Scheduler::admit_next() {
  Queue& queue = queues_.front();
  Run* next = *std::min_element(queue.runs.begin(), queue.runs.end(),
                                [](const Run* a, const Run* b) { return rank(*a) < rank(*b); });
  withdraw(*next);
  if (!queues_.empty() && queues_.front().owner == next->owner) {
    queues_.splice(queues_.end(), queues_, queues_.begin());  // the others' turn
  }
  next->is_admitted = true;
  next->since_ns = now_ns();
  running_.push_back(next);
  next->woken.notify_one();
}

void Scheduler::withdraw(Run& run) {
  for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
    const auto found = std::find(queue->runs.begin(), queue->runs.end(), &run);
    if (found == queue->runs.end()) continue;
    queue->runs.erase(found);
    if (queue->runs.empty()) queues_.erase(queue);
    return;
  }
}

int Scheduler::drain(bool drain) {
  const std::lock_guard<std::mutex> lock(guard_);
  draining_ = drain;
  std::size_t count = running_.size();
  for (const Queue& queue : queues_) count += queue.runs.size();
  return static_cast<int>(count);
}

void Scheduler::require_open() const {
  if (draining_) {
    throw Failure(Code::kDeviceUnavailable, "the device is draining: it takes no new work");
  }
}

bool Scheduler::cancel(std::int64_t number, bool& ended) {
  const std::lock_guard<std::mutex> lock(guard_);
  ended = false;
  for (Run* run : running_) {
    if (run->number == number) return run->is_cancelled = true;
  }
  for (const Queue& queue : queues_) {
    for (Run* run : queue.runs) {
      if (run->number != number) continue;
      run->is_cancelled = true;
      run->woken.notify_one();
      return ended = true;
    }
  }
  return false;
}

void Scheduler::show(const std::function<void(const ShownRun&)>& look) const {
  const std::lock_guard<std::mutex> lock(guard_);
  for (const Run* run : running_) look(shown(*run, true));
  for (const Queue& queue : queues_) {
    for (const Run* run : queue.runs) look(shown(*run, false));
  }
}

std::int64_t Scheduler::busy_ns() const {
  const std::lock_guard<std::mutex> lock(guard_);
  std::int64_t busy = busy_ns_;
  for (const Run* run : running_) busy += now_ns() - run->since_ns;
  return busy;
}

}  // namespace nnhal
