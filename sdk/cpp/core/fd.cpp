#include "nnhal/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace nnhal {

void Fd::reset(int number) {
  // close() is not repeated after EINTR: Linux has closed the descriptor, and another thread may have its number.
  if (number_ >= 0 && number_ != number) ::close(number_);
  number_ = number;
}

Result<Fd> Fd::duplicate() const {
  Fd copy(::fcntl(number_, F_DUPFD_CLOEXEC, 0));
  if (!copy) return Status::of_errno("a descriptor cannot be duplicated", errno);
  return copy;
}

}  // namespace nnhal
