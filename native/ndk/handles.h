// The objects of an application. It knows them by handles, which are numbers and never pointers: what was freed, or is
// of another kind, is an error code.
#ifndef NNHAL_NDK_HANDLES_H_
#define NNHAL_NDK_HANDLES_H_

#include <memory>

#include "refusal.h"

namespace nnhal::ndk {

class Object {
 public:
  virtual ~Object() = default;
};

// Keeps an object and returns its handle.
void* put(std::shared_ptr<Object> object);
// The object. UNEXPECTED_NULL if there is none, DEAD_OBJECT if the process has forked since it was made: its session is
// the parent's.
std::shared_ptr<Object> find(const void* handle);
// Forgets a handle. What the object was is released with its last user; in a process that has forked, never.
void forget(const void* handle) noexcept;

template <typename T>
std::shared_ptr<T> get(const void* handle) {
  std::shared_ptr<T> object = std::dynamic_pointer_cast<T>(find(handle));
  if (!object) refuse(kUnexpectedNull, "a handle of an object of another kind");
  return object;
}

// How often the process has forked: what was made in an earlier generation is its parent's.
unsigned generation();

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_HANDLES_H_
