// How a call ended: one of the HAL's ErrorStatus, and a text that says what was got, what was expected and where.
//
// No function of the core throws (but std::bad_alloc), so that it can be called from code without exceptions.
#ifndef NNHAL_STATUS_H_
#define NNHAL_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace nnhal {

// ErrorStatus of proto/nnhal/v1/types.proto, with its numbers.
enum class Code {
  kNone = 0,
  kDeviceUnavailable = 1,
  kGeneralFailure = 2,
  kOutputInsufficientSize = 3,
  kInvalidArgument = 4,
  kMissedDeadlineTransient = 5,
  kMissedDeadlinePersistent = 6,
  kResourceExhaustedTransient = 7,
  kResourceExhaustedPersistent = 8,
};

// The name without its prefix, such as "INVALID_ARGUMENT"; "status 12" for a number that the HAL does not have.
std::string name_of(Code code);

class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  // What a process has answered itself. Any other failure is the transport's, or was found on this side.
  static Status answered(Code code, std::string text) {
    Status status(code, std::move(text));
    status.is_answer_ = true;
    return status;
  }
  // A failed system call: `what`, and what `number` (an errno) means. Its code tells what used-up resources are.
  static Status of_errno(const std::string& what, int number);

  bool ok() const { return code_ == Code::kNone; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }
  bool is_answer() const { return is_answer_; }
  // Code and text, for people.
  std::string words() const { return ok() ? "NONE" : name_of(code_) + ": " + text_; }
  // The same failure with words before its text that say where it was.
  Status in(const std::string& place) const;

 private:
  Code code_ = Code::kNone;
  std::string text_;
  bool is_answer_ = false;
};

// A value, or why there is none. The value may be asked for only if ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: returned as it is
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: returned as it is; never a success
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace nnhal

#endif  // NNHAL_STATUS_H_
