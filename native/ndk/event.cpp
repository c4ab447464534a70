#include "event.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace nnhal::ndk {

std::shared_ptr<Event> Event::of_descriptor(int descriptor) {
  if (descriptor <= 0) bad_data("descriptor " + std::to_string(descriptor) + " of a sync fence");
  Fd end(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!end) bad_data(std::string("the descriptor of a sync fence: ") + std::strerror(errno));
  Result<Fence> fence = Fence::received(std::move(end));
  if (!fence.ok())
    bad_data(fence.status().text() + ", expected an end of a pair of sockets: docs/doors.md says how to make one");
  return std::make_shared<Event>(std::move(*fence), nullptr);
}

int Event::sync_fence() const {
  if (!has_sync_fence_) bad_data("an event without a sync fence");
  return required(fence_.fd().duplicate()).release();
}

void Event::wait() const {
  const Status status = fence_.wait();
  // One that is pending still has come too late: this event has failed without it.
  for (const std::shared_ptr<Event>& event : before_)
    if (event->fence_.state() != FenceState::kPending) event->wait();
  if (conclude_)
    conclude_();  // says better what was wrong
  else
    require(status);
}

}  // namespace nnhal::ndk
