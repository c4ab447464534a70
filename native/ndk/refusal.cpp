#include "refusal.h"

#include <cstdlib>
#include <cstring>

namespace nnhal::ndk {

bool is_logging() {
  static const bool wanted = [] {
    const char* value = std::getenv("NNHAL_NDK_LOG");
    return value && *value && std::strcmp(value, "0") != 0;
  }();
  return wanted;
}

ResultCode code_of(const Status& status) {
  switch (status.code()) {
    case Code::kNone: return kNoError;
    case Code::kDeviceUnavailable: return status.is_answer() ? kUnavailableDevice : kDeadObject;
    case Code::kGeneralFailure: return kOpFailed;
    case Code::kOutputInsufficientSize: return kOutputInsufficientSize;
    case Code::kInvalidArgument: return kBadData;
    case Code::kMissedDeadlineTransient: return kMissedDeadlineTransient;
    case Code::kMissedDeadlinePersistent: return kMissedDeadlinePersistent;
    case Code::kResourceExhaustedTransient: return status.is_answer() ? kResourceExhaustedTransient : kOutOfMemory;
    case Code::kResourceExhaustedPersistent: return status.is_answer() ? kResourceExhaustedPersistent : kOutOfMemory;
  }
  return kOpFailed;
}

}  // namespace nnhal::ndk
