// Statuses as exceptions, for libraries that stand on the core and are called by others: within one of them a failure
// is thrown, and each function that it exports catches it.
#ifndef NNHAL_FAILURE_H_
#define NNHAL_FAILURE_H_

#include <stdexcept>
#include <utility>

#include "status.h"

namespace nnhal {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(const Status& status) {
  if (!status.ok()) throw Failure(status.words());
}

template <typename T>
T take(Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace nnhal

#endif  // NNHAL_FAILURE_H_
