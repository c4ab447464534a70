#include "nnhal/status.h"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace nnhal {

std::string name_of(Code code) {
  static constexpr const char* kNames[] = {"NONE",
                                           "DEVICE_UNAVAILABLE",
                                           "GENERAL_FAILURE",
                                           "OUTPUT_INSUFFICIENT_SIZE",
                                           "INVALID_ARGUMENT",
                                           "MISSED_DEADLINE_TRANSIENT",
                                           "MISSED_DEADLINE_PERSISTENT",
                                           "RESOURCE_EXHAUSTED_TRANSIENT",
                                           "RESOURCE_EXHAUSTED_PERSISTENT"};
  const auto number = static_cast<std::size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "status " + std::to_string(static_cast<int>(code));
}

Status Status::of_errno(const std::string& what, int number) {
  const bool is_used_up = number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOSPC ||
                          number == ENOBUFS || number == ETOOMANYREFS;
  char room[128];
  // The GNU form of strerror_r: strerror would share its text among threads.
  return {is_used_up ? Code::kResourceExhaustedTransient : Code::kGeneralFailure,
          what + ": " + ::strerror_r(number, room, sizeof room)};
}

Status Status::in(const std::string& place) const {
  Status placed = *this;
  if (!ok()) placed.text_ = place + ": " + text_;
  return placed;
}

}  // namespace nnhal
