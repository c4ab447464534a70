// Refusals, and their words.
#ifndef NNHAL_SERVER_FAILURES_H_
#define NNHAL_SERVER_FAILURES_H_

#include <sstream>
#include <string>
#include <vector>

#include "nnhal/clock.h"
#include "nnhal/device.h"
#include "nnhal/v1/types.pb.h"

namespace nnhal {

// What stands between words of a message: everything is written as `operator<<` does.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void invalid_argument(const Parts&... parts) {
  throw Failure(Code::kInvalidArgument, text(parts...));
}

template <class... Parts>
[[noreturn]] void general_failure(const Parts&... parts) {
  throw Failure(Code::kGeneralFailure, text(parts...));
}

template <class... Parts>
[[noreturn]] void exhausted(const Parts&... parts) {
  throw Failure(Code::kResourceExhaustedTransient, text(parts...));
}

// What the core has returned, or the failure for which there is none.
template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw Failure(result.status());
  return std::move(*result);
}
inline void require(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

inline v1::ErrorStatus wire_status(Code code) { return static_cast<v1::ErrorStatus>(code); }

// Dimensions for messages: [1, 8, ?].
template <class List>
std::string described(const List& dimensions) {
  std::string words = "[";
  for (const auto each : dimensions) words += (words.size() > 1 ? ", " : "") + (each ? std::to_string(each) : "?");
  return words + "]";
}

// Refuses work whose deadline has passed already: the same call can only miss it again.
inline void require_ahead(std::int64_t deadline_ns) {
  if (deadline_ns < kNoTime) invalid_argument("deadline ", deadline_ns, " ns, expected -1 or more");
  if (deadline_ns != kNoTime && now_ns() > deadline_ns) {
    throw Failure(Code::kMissedDeadlinePersistent, "the deadline had passed before the work began");
  }
}

}  // namespace nnhal

#endif  // NNHAL_SERVER_FAILURES_H_
