// Which run is next on the device. A run goes on in the thread that brought it, once it is admitted.
//
// Clients take turns. Among one client's runs the higher priority goes first, then the earlier deadline, then the earlier arrival.
#ifndef NNHAL_SERVER_SCHEDULER_H_
#define NNHAL_SERVER_SCHEDULER_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "failures.h"

namespace nnhal {

class Execution;

// One run, from when it asks for a worker until it has left. It lies on the stack of the thread that does it.
struct Run {
  Execution* execution = nullptr;
  const void* owner = nullptr;  // the client that takes its turn with it
  int priority = 0;
  bool is_reserved = false;  // it was accepted some time ago, as one that is launched is
  std::int64_t deadline_ns = kNoTime;
  std::int64_t number = 0;                         // tells it from all others; 0 before it has entered
  std::int64_t since_ns = 0;                       // since when it runs, or waits
  const std::function<bool()>* is_wanted = nullptr;  // whether anybody waits for it; null if nobody tells
  std::atomic<bool> is_cancelled{false};

  bool is_admitted = false;
  std::condition_variable woken;
};

// What operators see of a run.
struct ShownRun {
  std::int64_t number, since_ns, deadline_ns;
  Execution* execution;
  const void* owner;
  int priority;
  bool runs;
};

class Scheduler {
 public:
  explicit Scheduler(int workers) : workers(workers), free_(workers) {}

  const int workers;

  // Waits for a worker. Throws MISSED_DEADLINE_TRANSIENT if none is free in time, DEVICE_UNAVAILABLE if the device drains, and
  // GENERAL_FAILURE if the run is cancelled. `leave` follows each time that it returns.
  void enter(Run& run);
  void leave(Run& run);
  bool has_free_worker() const { return free_ > 0; }

  // Takes no new runs but those that were accepted, or takes all again; returns how many run or wait.
  int drain(bool drain);
  bool is_draining() const { return draining_; }
  // Throws DEVICE_UNAVAILABLE if it drains.
  void require_open() const;
  // Cancels a run; returns false if it is not there. `ended` says whether it has ended, and not just been told to.
  bool cancel(std::int64_t number, bool& ended);

  // Those that run, then those that wait. `look` is called under the lock, in which no run ends.
  void show(const std::function<void(const ShownRun&)>& look) const;
  std::int64_t ended() const { return ended_; }
  std::int64_t busy_ns() const;

 private:
  struct Queue {
    const void* owner;
    std::vector<Run*> runs;
  };

  void admit_next();
  void withdraw(Run& run);

  mutable std::mutex guard_;
  std::atomic<int> free_;
  std::atomic<bool> draining_{false};
  std::atomic<std::int64_t> ended_{0};
  std::int64_t busy_ns_ = 0;
  std::int64_t numbers_ = 0;
  std::vector<Run*> running_;
  std::list<Queue> queues_;  // the client whose turn it is first
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_SCHEDULER_H_
