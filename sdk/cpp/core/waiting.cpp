#include "nnhal/waiting.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace nnhal {

Result<Interrupt> Interrupt::make() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return Status::of_errno("no event", errno);
  return Interrupt(std::move(event));
}

void Interrupt::trigger() {
  const std::uint64_t one = 1;
  // It cannot fail but for a count that is full, and then it is triggered.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

bool Interrupt::is_triggered() const {
  pollfd seen{event_.get(), POLLIN, 0};
  return ::poll(&seen, 1, 0) > 0;
}

Status wait_readable(int descriptor, const Patience& patience) {
  for (;;) {
    // poll() passes -1 over.
    pollfd waiting[] = {{descriptor, POLLIN, 0}, {patience.interrupt ? patience.interrupt->fd().get() : -1, POLLIN, 0}};
    const int ready = ::poll(waiting, 2, milliseconds_until(patience.deadline_ns));
    if (ready < 0 && errno != EINTR) return Status::of_errno("a descriptor cannot be waited for", errno);
    if (ready > 0 && waiting[1].revents) return {Code::kGeneralFailure, "the call was cancelled"};
    if (ready > 0) return {};
    if (has_passed(patience.deadline_ns)) return {Code::kMissedDeadlineTransient, "no answer before the deadline"};
  }
}

}  // namespace nnhal
