// What processes answer, decoded: each struct holds what a client needs of its message in proto/nnhal/v1.
//
// `place` names the process in the statuses. A status that the answer holds is the process's own (Status::is_answer).
#ifndef NNHAL_CLIENT_MESSAGES_H_
#define NNHAL_CLIENT_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../clock.h"
#include "../status.h"
#include "model.h"

namespace nnhal::client {

// What is known of one output after an execution.
struct OutputShape {
  std::vector<std::uint32_t> dimensions;  // 0 for an axis that is still unknown, or empty
  bool is_sufficient = false;             // whether it fitted its memory
};

struct Timing {
  std::int64_t on_device_ns = kNoTime;
  std::int64_t in_driver_ns = kNoTime;
};

struct ExecutionResult {
  bool fits = false;                // false if an output did not fit its memory: nothing of that is written then
  std::vector<OutputShape> shapes;  // empty, or one for each output
  Timing timing;
};

// Dimensions of an output that were not known before a run.
struct OutputReport {
  std::string name;
  std::vector<std::int64_t> dimensions;
  bool is_sufficient = false;
};

// A run of a binding of the framework.
struct RunReport {
  std::int64_t duration_ns = 0;
  bool is_direct = false;  // over the run channel: the framework took no part
  bool fell_back = false;  // a device failed, and another one ran in its place
  std::vector<OutputReport> outputs;
  std::vector<Timing> steps;  // one for each step if the binding measures
  // Of a launched run with one step: from the call until the fence signals, and from the last fence that it waited for.
  Timing launched, fenced;
};

// An input or output of a loaded model.
struct TensorInfo {
  std::string name;
  std::int32_t type = 0;
  std::vector<std::uint32_t> dimensions;  // 0 for an axis of unknown size
  std::int64_t byte_size = 0;             // 0 if a dimension is unknown
  std::string element_type;               // the model's own, by numpy's name; `type` says what is in memory
  bool is_scalar = false;                 // whether the model's has rank 0; its dimensions are [1] then
  std::int32_t tensor = -1;               // its index in a TFLite file
};

struct LoadedModel {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::string> step_devices;  // in the order of execution
  std::vector<TensorInfo> states;         // that each binding carries from run to run; they are not bound
  ClientMemory memory;
};

// A part of a model that the framework would run as one model.
struct PlannedGroup {
  std::vector<std::int32_t> nodes;        // by their indices in the file's main graph, ascending
  std::vector<std::string> step_devices;  // in the order of execution
};

// A node that no group has.
struct LeftNode {
  std::int32_t node = 0;
  std::string name, operator_type;
  std::string reason;  // with those of the devices
};

// What would run where.
struct Plan {
  std::int64_t handle = 0;  // 0 if there is no group
  std::vector<PlannedGroup> groups;
  std::vector<LeftNode> left;
  std::optional<LoadedModel> loaded;  // the only group, if it was loaded at once; there is no handle then
};

// A device that the framework knows.
struct DeviceInfo {
  std::string name, version;
  std::int32_t type = 0;
  std::int32_t feature_level = 0;
  bool is_available = false;
  std::vector<std::string> extensions;  // that it knows, by their names
};

// Of the answer to an execution on a channel.
Result<ExecutionResult> decode_burst_answer(std::string_view encoded, const std::string& place);
// The report is filled as well if an output did not fit its memory: it then holds what outputs need.
Status decode_run_answer(std::string_view encoded, const std::string& place, RunReport* report);
// The same, with the times of a run that was launched.
Status decode_launched_run(std::string_view encoded, const std::string& place, RunReport* report);
// One answer for each of so many operations.
Result<std::vector<bool>> decode_supported(std::string_view encoded, std::size_t operations, const std::string& place);
Result<LoadedModel> decode_model(std::string_view encoded, const std::string& place);
Result<Plan> decode_plan(std::string_view encoded, const std::string& place);
Result<std::vector<DeviceInfo>> decode_devices(std::string_view encoded, const std::string& place);
// Of the answer to Bind: outputs whose dimensions follow from those of the inputs, also those that do not fit.
Result<std::vector<OutputReport>> decode_known_outputs(std::string_view encoded, const std::string& place);

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_MESSAGES_H_
