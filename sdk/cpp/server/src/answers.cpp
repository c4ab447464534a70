#include "answers.h"

#include <new>

#include "log.h"

namespace nnhal {
namespace {

constexpr std::size_t kMostErrorBytes = 2000;

void set_timing(std::int64_t on_device_ns, std::int64_t in_driver_ns, v1::Timing& timing) {
  timing.set_time_on_device_ns(on_device_ns);
  timing.set_time_in_driver_ns(in_driver_ns);
}

// What was copied, and when the device worked, if that is known.
template <class Told>
void add_work(const RunResult& result, Told& told) {
  if (!result.copies.empty()) {
    v1::Staging& staging = *told.mutable_staging();
    for (const Copy& copy : result.copies) {
      staging.set_bytes(staging.bytes() + copy.bytes);
      staging.set_duration_ns(staging.duration_ns() + copy.ended_ns - copy.started_ns);
      if (result.started_ns == kNoTime) continue;  // instants are those of executions that measure
      v1::Copy& one = *staging.add_copies();
      one.set_is_output(copy.is_output);
      one.set_bytes(copy.bytes);
      one.set_started_ns(copy.started_ns);
      one.set_ended_ns(copy.ended_ns);
    }
  }
  if (result.started_ns != kNoTime) {
    told.mutable_span()->set_started_ns(result.started_ns);
    told.mutable_span()->set_ended_ns(result.ended_ns);
  }
}

}  // namespace

void to_message(const RunResult& result, v1::ExecutionResult& into) {
  into.set_output_sufficient_size(result.is_sufficient);
  for (const Shape& shape : result.shapes) {
    v1::OutputShape& one = *into.add_output_shapes();
    one.mutable_dimensions()->Assign(shape.dimensions.begin(), shape.dimensions.end());
    one.set_is_sufficient(shape.is_sufficient);
  }
  set_timing(result.on_device_ns, result.in_driver_ns, *into.mutable_timing());
}

v1::BurstAnswer answer_of(const RunResult& result) {
  v1::BurstAnswer answer;
  to_message(result, *answer.mutable_result());
  add_work(result, answer);
  return answer;
}

v1::BurstAnswer error_answer(Code code, const std::string& message) {
  v1::BurstAnswer answer;
  answer.set_status(wire_status(code));
  answer.set_message(message.substr(0, kMostErrorBytes));
  return answer;
}

void to_info(const RunResult& result, v1::GetExecutionInfoResponse& into) {
  set_timing(result.on_device_ns, result.in_driver_ns, *into.mutable_timing_fenced());
  set_timing(result.on_device_ns, result.in_driver_ns, *into.mutable_timing_launched());
  add_work(result, into);
}

const std::string& plain_answer() {
  static const std::string answer = answer_of(RunResult{}).SerializeAsString();
  return answer;
}

std::string encoded_answer(const RunResult& result) { return answer_of(result).SerializeAsString(); }

std::string encoded_error(Code code, const std::string& message) {
  return error_answer(code, message).SerializeAsString();
}

std::string encoded_refusal(const std::string& reason) {
  return encoded_error(Code::kInvalidArgument, reason + "; the channel ends with this answer");
}

Failure told(const std::exception& error, const char* event) {
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) return *failure;
  logs::error(event, " reason='", error.what(), "'");
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {Code::kResourceExhaustedTransient, "the call failed: no memory is left"};
  }
  return {Code::kGeneralFailure, "the call failed; the log of the process has the reason"};
}

bool RunCalls::read(const Message& message, std::int64_t& execution, std::int64_t& deadline_ns) {
  if (message.size != last_.size() || std::memcmp(message.bytes.data(), last_.data(), message.size) != 0) {
    if (!call_.ParseFromArray(message.bytes.data(), static_cast<int>(message.size))) {
      throw ProtocolError(text(message.size, " bytes that are no BurstCall"));
    }
    if (call_.call_case() == v1::BurstCall::CALL_NOT_SET) {
      throw ProtocolError("a BurstCall without a call, expected one");
    }
    if (!call_.has_run()) return false;
    last_.assign(message.bytes.data(), message.size);
    last_execution_ = call_.run().execution();
    last_deadline_ns_ = deadline_of(call_.run());
  }
  execution = last_execution_;
  deadline_ns = last_deadline_ns_;
  return true;
}

std::int64_t deadline_of_only(RunCalls& calls, const Message& message, std::int64_t only) {
  std::int64_t execution = 0, deadline_ns = kNoTime;
  if (!calls.read(message, execution, deadline_ns)) {
    const auto* field = v1::BurstCall::descriptor()->FindFieldByNumber(calls.other().call_case());
    invalid_argument("got ", field->name(), " on a run channel, expected run");
  }
  if (execution != only) {
    invalid_argument("got execution ", execution, ", expected ", only, ", which the channel is for");
  }
  return deadline_ns;
}

}  // namespace nnhal
