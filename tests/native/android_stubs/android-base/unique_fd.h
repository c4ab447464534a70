#pragma once
#include <unistd.h>
#include <utility>

namespace android::base {
class unique_fd {
 public:
  explicit unique_fd(int number = -1) : number_(number) {}
  unique_fd(unique_fd&& other) : number_(other.release()) {}
  unique_fd& operator=(unique_fd&& other) {
    reset(other.release());
    return *this;
  }
  ~unique_fd() { reset(); }
  int get() const { return number_; }
  bool ok() const { return number_ >= 0; }
  operator int() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void reset(int number = -1) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

 private:
  int number_;
};
}  // namespace android::base
