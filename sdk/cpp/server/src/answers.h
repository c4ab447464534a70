// The calls and answers of channels as bytes. The common ones, which are equal each time, are neither parsed nor made twice.
#ifndef NNHAL_SERVER_ANSWERS_H_
#define NNHAL_SERVER_ANSWERS_H_

#include <string>
#include <vector>

#include "channel.h"
#include "nnhal/v1/burst.pb.h"
#include "nnhal/v1/fenced_execution_callback.pb.h"
#include "runs.h"

namespace nnhal {

// Instants and durations that are not set are -1.
template <class Message>
std::int64_t deadline_of(const Message& message) {
  return message.has_deadline_ns() ? message.deadline_ns() : kNoTime;
}
template <class Message>
std::int64_t duration_of(const Message& message) {
  return message.has_duration_ns() ? message.duration_ns() : kNoTime;
}

// What messages have of a result.
void to_message(const RunResult& result, v1::ExecutionResult& into);
v1::BurstAnswer answer_of(const RunResult& result);
v1::BurstAnswer error_answer(Code code, const std::string& message);
void to_info(const RunResult& result, v1::GetExecutionInfoResponse& into);

// The answer to a run after which there is nothing to say.
const std::string& plain_answer();
std::string encoded_answer(const RunResult& result);
std::string encoded_error(Code code, const std::string& message);
// The answer to a datagram that is no valid call: the channel ends with it.
std::string encoded_refusal(const std::string& reason);

// What a client is told of an exception; one that nobody expected is logged as `event`.
Failure told(const std::exception& error, const char* event);

// The calls that run executions, as most do.
class RunCalls {
 public:
  // Reads a call. Returns false if it is another one, which is parsed into `other`. Throws ProtocolError if it is none at all.
  bool read(const Message& message, std::int64_t& execution, std::int64_t& deadline_ns);
  const v1::BurstCall& other() const { return call_; }

 private:
  std::string last_;
  std::int64_t last_execution_ = 0, last_deadline_ns_ = kNoTime;
  v1::BurstCall call_;
};

// Reads a call of a process that may run one execution. Throws ProtocolError, and INVALID_ARGUMENT for any other call.
std::int64_t deadline_of_only(RunCalls& calls, const Message& message, std::int64_t execution);

}  // namespace nnhal

#endif  // NNHAL_SERVER_ANSWERS_H_
