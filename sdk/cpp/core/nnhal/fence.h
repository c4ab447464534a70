// Sync fences (docs/reference/protocol.md): ends of pairs of unix sockets that signal the end of something, once, to all holders.
#ifndef NNHAL_FENCE_H_
#define NNHAL_FENCE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "fd.h"
#include "status.h"

namespace nnhal {

// Says what a descriptor is if it is no end of a pair of sockets that can carry a fence or a bell; nothing if it is
// one.
std::string fault_of_pair(const Fd& end);

enum class FenceState { kPending, kSignalled, kError };

// The waiting end. Any number of processes and threads may wait for it, any number of times.
class Fence {
 public:
  // Takes over an end that this process has made, or has got as a fence from a process that it trusts.
  explicit Fence(Fd end) : end_(std::move(end)) {}
  // Takes over what another process has handed over as a fence. INVALID_ARGUMENT says what it is instead.
  static Result<Fence> received(Fd end);

  const Fd& fd() const { return end_; }
  FenceState state() const;
  // Waits until it has signalled. GENERAL_FAILURE if it is in error, MISSED_DEADLINE_TRANSIENT at the deadline.
  Status wait(std::int64_t deadline_ns = kNoTime) const;
  // Puts it into error for everybody who waits for it, unless it has signalled.
  void cancel();

 private:
  Fd end_;
};

// The signalling end. If it goes without a signal, or its process dies, the fence is in error.
class Signal {
 public:
  explicit Signal(Fd end) : end_(std::move(end)) {}
  // Signals: who has waited sees everything that was written before.
  void send();
  // Puts the fence into error. Has no effect after a signal.
  void fail() { end_.reset(); }
  // Whether somebody has cancelled the fence. Closing all of its copies does not cancel it.
  bool is_cancelled() const;

 private:
  Fd end_;
};

// A pending fence, and the end that signals it.
Result<std::pair<Signal, Fence>> make_fence();

// Waits until all have signalled. `interrupt` is a descriptor that becomes readable if waiting is to end, or -1.
// Messages call the fences by `names`, or "fence 0", "fence 1" and so on. GENERAL_FAILURE if one is in error or waiting
// was interrupted, MISSED_DEADLINE_TRANSIENT at the deadline.
Status wait_for_all(const std::vector<const Fence*>& fences, std::int64_t deadline_ns = kNoTime, int interrupt = -1,
                    const std::vector<std::string>& names = {});

}  // namespace nnhal

#endif  // NNHAL_FENCE_H_
