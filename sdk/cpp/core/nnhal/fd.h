// A descriptor that is closed when its owner goes.
#ifndef NNHAL_FD_H_
#define NNHAL_FD_H_

#include <utility>

#include "status.h"

namespace nnhal {

class Fd {
 public:
  // Takes over `number`; -1 is none.
  explicit Fd(int number = -1) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  // Hands the descriptor over to the caller, who closes it.
  int release() { return std::exchange(number_, -1); }
  // Closes it, and takes over `number`.
  void reset(int number = -1);
  // A second descriptor of the same file, which programs that this one starts do not inherit.
  Result<Fd> duplicate() const;

 private:
  int number_;
};

}  // namespace nnhal

#endif  // NNHAL_FD_H_
