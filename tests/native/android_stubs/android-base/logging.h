// CHECK and LOG, as far as the tests use them: a line on standard error.
#pragma once
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace android::base {
enum LogSeverity { VERBOSE, DEBUG, INFO, WARNING, ERROR, FATAL_WITHOUT_ABORT, FATAL };
struct LogLine {
  explicit LogLine(bool is_fatal) : is_fatal(is_fatal) {}
  ~LogLine() {
    std::cerr << text.str() << "\n";
    if (is_fatal) std::abort();
  }
  bool is_fatal;
  std::ostringstream text;
};
struct Quiet {
  template <typename T>
  const Quiet& operator<<(const T&) const { return *this; }
};
inline void InitLogging(char**) {}
inline void SetMinimumLogSeverity(LogSeverity) {}
}  // namespace android::base

#define LOG(severity) \
  ::android::base::LogLine(::android::base::severity == ::android::base::FATAL).text
#define VLOG(tag) ::android::base::Quiet()
#define CHECK(condition) \
  if (!(condition)) ::android::base::LogLine(true).text << #condition << ' '
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
