// Why a call is refused. Within the library it is thrown; no function that is exported lets it out (see exports.cpp).
#ifndef NNHAL_NDK_REFUSAL_H_
#define NNHAL_NDK_REFUSAL_H_

#include <string>

#include "api.h"
#include "nnhal/status.h"

namespace nnhal::ndk {

struct Refusal {
  ResultCode code;
  std::string text;
};

[[noreturn]] inline void refuse(ResultCode code, std::string text) { throw Refusal{code, std::move(text)}; }
[[noreturn]] inline void bad_data(std::string text) { refuse(kBadData, std::move(text)); }
[[noreturn]] inline void bad_state(std::string text) { refuse(kBadState, std::move(text)); }

// Whether NNHAL_NDK_LOG asks for words on standard error.
bool is_logging();

// The result code that the NDK has for a status: of the device if a process has answered it, else of the way to it.
ResultCode code_of(const Status& status);

inline void require(const Status& status) {
  if (!status.ok()) refuse(code_of(status), status.text());
}

template <typename T>
T required(Result<T> result) {
  require(result.status());
  return std::move(*result);
}

inline void require_pointer(const void* pointer, const char* what) {
  if (!pointer) refuse(kUnexpectedNull, std::string(what) + " is null");
}

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_REFUSAL_H_
