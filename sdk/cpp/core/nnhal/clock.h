// The contract's clock: nanoseconds of CLOCK_BOOTTIME, which all processes of a host share.
#ifndef NNHAL_CLOCK_H_
#define NNHAL_CLOCK_H_

#include <cstdint>

namespace nnhal {

// No deadline, no duration, or a time that was not measured.
constexpr std::int64_t kNoTime = -1;

std::int64_t now_ns();

// What poll() is to be given so that it ends at `deadline_ns`: milliseconds, rounded up; -1 without a deadline. It is
// less for a deadline that is weeks away, so that poll() may have to be repeated.
int milliseconds_until(std::int64_t deadline_ns);

// Whether there is a deadline, and it has passed.
bool has_passed(std::int64_t deadline_ns);

}  // namespace nnhal

#endif  // NNHAL_CLOCK_H_
