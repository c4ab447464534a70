// Waiting that ends: at a deadline, or when another thread says so.
#ifndef NNHAL_WAITING_H_
#define NNHAL_WAITING_H_

#include <cstdint>

#include "clock.h"
#include "fd.h"
#include "status.h"

namespace nnhal {

// Ends what waits with it, in any thread, now and from now on.
class Interrupt {
 public:
  static Result<Interrupt> make();
  // Safe to call from a signal handler, too.
  void trigger();
  bool is_triggered() const;
  // Readable once it is triggered.
  const Fd& fd() const { return event_; }

 private:
  explicit Interrupt(Fd event) : event_(std::move(event)) {}
  Fd event_;
};

// How long a call may take on this side. It says nothing to the process that is called.
struct Patience {
  // By CLOCK_BOOTTIME.
  std::int64_t deadline_ns = kNoTime;
  // Must outlive the call.
  const Interrupt* interrupt = nullptr;
};

// Waits until a descriptor can be read, or its other side has gone. MISSED_DEADLINE_TRANSIENT at the
// deadline, GENERAL_FAILURE if it was interrupted.
Status wait_readable(int descriptor, const Patience& patience = {});

}  // namespace nnhal

#endif  // NNHAL_WAITING_H_
