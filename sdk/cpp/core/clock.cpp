#include "nnhal/clock.h"

#include <algorithm>
#include <climits>
#include <ctime>

namespace nnhal {

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

int milliseconds_until(std::int64_t deadline_ns) {
  if (deadline_ns == kNoTime) return -1;
  const std::int64_t now = now_ns();
  if (deadline_ns <= now) return 0;
  const std::int64_t left = (deadline_ns - now - 1) / 1'000'000 + 1;
  return static_cast<int>(std::min<std::int64_t>(left, INT_MAX));
}

bool has_passed(std::int64_t deadline_ns) { return deadline_ns != kNoTime && now_ns() >= deadline_ns; }

}  // namespace nnhal
