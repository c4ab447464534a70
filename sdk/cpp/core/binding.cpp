// Runs of a binding: directly on the devices, or through the framework.
#include <algorithm>

#include "nnhal/client/elements.h"
#include "nnhal/client/framework.h"

namespace nnhal::client {

Status Binding::run(RunReport* report, std::int64_t deadline_ns, const Patience& patience) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RunReport unwanted;
  if (!report) report = &unwanted;
  // The framework ends runs at their deadline, even if a device has stopped.
  if (!run_channel_ || deadline_ns != kNoTime) return run_through_framework(report, deadline_ns, {}, patience);
  Status status = run_directly(report, patience);
  if (status.ok() || has_passed(patience.deadline_ns)) return status;
  if (patience.interrupt && patience.interrupt->is_triggered()) return status;
  if (status.is_answer()) {
    const bool can_be_explained =
        status.code() == Code::kDeviceUnavailable || status.code() == Code::kOutputInsufficientSize;
    if (!may_fall_back_ && !can_be_explained) return status;
    return run_through_framework(report, deadline_ns, {}, patience);
  }
  // Whatever is wrong with the channel, it is not used again; the framework waits for devices that are still at work.
  run_channel_.reset();
  has_lost_run_channel_ = true;
  return run_through_framework(report, deadline_ns, status, patience);
}

void Binding::resize(std::vector<InputDimensions> inputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lengths_ = std::move(inputs);
}

void Binding::add_lengths(Message& call, int field, const std::vector<std::string>& names) const {
  for (const InputDimensions& input : lengths_) {
    const auto found = std::find(names.begin(), names.end(), input.name);
    if (found == names.end()) continue;  // no input of this step
    call.message(field, Message().integer(1, found - names.begin()).numbers(2, input.dimensions));
  }
}

Status Binding::run_directly(RunReport* report, const Patience& patience) {
  const std::int64_t called_ns = now_ns();
  Message run = Message().integer(1, execution_).integer(2, kNoTime);
  add_lengths(run, 3, run_inputs_);
  Result<Channel::Answer> answer = run_channel_->exchange(Message().message(1, run), {}, patience);
  if (!answer.ok()) return answer.status();
  Result<ExecutionResult> result = decode_burst_answer(answer->bytes, run_channel_->place());
  if (!result.ok()) return result.status();
  if (!result->fits)
    return Status::answered(Code::kOutputInsufficientSize,
                            run_channel_->place() + ": an output does not fit its memory");
  if (!result->shapes.empty() && !outputs_.empty() && result->shapes.size() != outputs_.size())
    return Status(Code::kGeneralFailure, run_channel_->place() + " reported " + std::to_string(result->shapes.size()) +
                                             " outputs, expected " + std::to_string(outputs_.size()));
  *report = {};
  report->duration_ns = now_ns() - called_ns;
  report->is_direct = true;
  report->outputs = known_;
  for (std::size_t index = 0; index < std::min(outputs_.size(), result->shapes.size()); ++index) {
    if (outputs_[index].empty()) continue;  // no output of the model
    const std::vector<std::uint32_t>& dimensions = result->shapes[index].dimensions;
    report->outputs.push_back({outputs_[index], {dimensions.begin(), dimensions.end()}, true});
  }
  return require_possible(*report, run_channel_->place());
}

Status Binding::run_through_framework(RunReport* report, std::int64_t deadline_ns, const Status& lost_because,
                                      const Patience& patience) {
  // The deadline is always set, since a datagram is never empty.
  Message call = Message().integer(1, deadline_ns);
  if (!lost_because.ok()) call.number(2, true);
  // A channel that has closed needs no explanation. What else has happened on it the framework puts into its log.
  if (!lost_because.ok() && lost_because.code() != Code::kDeviceUnavailable) call.bytes(3, lost_because.text());
  add_lengths(call, 4, inputs_);
  Result<Channel::Answer> answer = channel_->exchange(std::move(call), {}, patience);
  if (!answer.ok()) return answer.status();
  Status status = decode_run_answer(answer->bytes, channel_->place(), report);
  return status.ok() ? require_possible(*report, channel_->place()) : status;
}

Status Binding::require_possible(const RunReport& report, const std::string& place) const {
  for (const OutputReport& output : report.outputs) {
    const auto bound = std::find_if(bound_outputs_.begin(), bound_outputs_.end(),
                                    [&](const BoundTensor& each) { return each.name == output.name; });
    if (bound == bound_outputs_.end()) continue;
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const OutputReport& each) { return each.name == output.name; });
    const bool follows = known != known_.end() && lengths_.empty();
    const std::vector<std::int64_t>& declared = follows ? known->dimensions : bound->declared;
    const bool is_fitting =
        std::equal(output.dimensions.begin(), output.dimensions.end(), declared.begin(), declared.end(),
                   [](std::int64_t found, std::int64_t expected) {
                     return !found || !expected || found == expected;  // 0 is empty, or still unknown
                   });
    std::string objection;
    if (!is_fitting && !declared.empty() && !output.dimensions.empty()) objection = ", expected " + words(declared);
    double bytes = static_cast<double>(bound->element_bytes);
    for (const std::int64_t length : output.dimensions) bytes *= static_cast<double>(length);
    if (objection.empty() && bytes > static_cast<double>(bound->location.length))
      objection = ", which its memory cannot hold";
    if (!objection.empty())
      return {Code::kGeneralFailure,
              place + " reported dimensions " + words(output.dimensions) + " of '" + output.name + "'" + objection};
  }
  return {};
}

}  // namespace nnhal::client
