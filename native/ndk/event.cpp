#include "event.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace nnhal::ndk {

std::shared_ptr<Event> Event::of_descriptor(int descriptor) {
  if (descriptor <= 0) bad_data("descriptor " + std::to_string(descriptor) + " of a sync fence");
  Fd end(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!end) bad_data(std::string("the descriptor of a sync fence: ") + std::strerror(errno));
  Fence fence = required(Fence::received(std::move(end)));
  return std::make_shared<Event>(std::move(fence), nullptr);
}

int Event::sync_fence() const {
  if (!has_sync_fence_) bad_data("an event without a sync fence");
  return required(fence_.fd().duplicate()).release();
}

void Event::wait() const {
  for (const std::shared_ptr<Event>& event : before_) event->wait();
  const Status status = fence_.wait();
  if (conclude_)
    conclude_();  // says better what was wrong
  else
    require(status);
}

}  // namespace nnhal::ndk
