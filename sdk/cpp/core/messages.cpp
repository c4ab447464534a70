#include "nnhal/client/messages.h"

#include "nnhal/protobuf.h"

namespace nnhal::client {
namespace {

Status malformed(const std::string& place, const char* what) {
  return {Code::kGeneralFailure, place + ": a malformed " + what};
}

// Reads the fields of a message, and of those within it. They all have the form `bool read(bytes, out)`.
bool read(std::string_view encoded, OutputShape& shape) {
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) reader.append_to(shape.dimensions);
    if (reader.field() == 2) shape.is_sufficient = reader.number();
  }
  return reader.well_formed();
}

// The fields of two times may follow others, as they do in the report of a step.
bool read(std::string_view encoded, Timing& timing, int first_field = 1) {
  timing = {0, 0};  // what is not sent is 0, and -1 is sent
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == first_field) timing.on_device_ns = reader.integer();
    if (reader.field() == first_field + 1) timing.in_driver_ns = reader.integer();
  }
  return reader.well_formed();
}

bool read(std::string_view encoded, ExecutionResult& result) {
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) result.fits = reader.number();
    if (reader.field() == 2) is_well_formed &= read(reader.bytes(), result.shapes.emplace_back());
    if (reader.field() == 3) is_well_formed &= read(reader.bytes(), result.timing);
  }
  return is_well_formed && reader.well_formed();
}

bool read(std::string_view encoded, OutputReport& output) {
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) output.name = reader.text();
    if (reader.field() == 2) reader.append_to(output.dimensions);
    if (reader.field() == 3) output.is_sufficient = reader.number();
  }
  return reader.well_formed();
}

bool read(std::string_view encoded, RunReport& report) {
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) report.duration_ns = reader.integer();
    if (reader.field() == 2) is_well_formed &= read(reader.bytes(), report.steps.emplace_back(), 3);
    if (reader.field() == 4) is_well_formed &= read(reader.bytes(), report.outputs.emplace_back());
    if (reader.field() == 7) report.fell_back = reader.number();
  }
  return is_well_formed && reader.well_formed();
}

bool read(std::string_view encoded, TensorInfo& tensor) {
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) tensor.name = reader.text();
    if (reader.field() == 2) tensor.type = reader.integer32();
    if (reader.field() == 3) reader.append_to(tensor.dimensions);
    if (reader.field() == 4) tensor.byte_size = reader.integer();
    if (reader.field() == 7) tensor.element_type = reader.text();
    if (reader.field() == 8) tensor.is_scalar = reader.number();
    if (reader.field() == 9) tensor.tensor = reader.integer32();
  }
  return reader.well_formed();
}

bool read(std::string_view encoded, LoadedModel& model) {
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) model.name = reader.text();
    if (reader.field() == 2) is_well_formed &= read(reader.bytes(), model.inputs.emplace_back());
    if (reader.field() == 3) is_well_formed &= read(reader.bytes(), model.outputs.emplace_back());
    if (reader.field() == 5) model.step_devices.push_back(reader.text());
    if (reader.field() == 7) is_well_formed &= read(reader.bytes(), model.states.emplace_back());
    if (reader.field() == 10) model.memory.is_blob = reader.text() == "hardware_buffer_blob";
    if (reader.field() == 11 && reader.number()) model.memory.alignment = reader.number();
  }
  return is_well_formed && reader.well_formed();
}

// The field with that number of a message within another one, such as the device of a step.
std::string text_of(std::string_view encoded, int field) {
  std::string text;
  for (FieldReader reader(encoded); reader.next();)
    if (reader.field() == field) text = reader.text();
  return text;
}

bool read(std::string_view encoded, PlannedGroup& group) {
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) reader.append_to(group.nodes);
    if (reader.field() == 4) group.step_devices.push_back(text_of(reader.bytes(), 1));
  }
  return reader.well_formed();
}

bool read(std::string_view encoded, LeftNode& left) {
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) left.node = reader.integer32();
    if (reader.field() == 2) left.name = reader.text();
    if (reader.field() == 3) left.operator_type = reader.text();
    if (reader.field() == 4) left.reason = reader.text() + left.reason;
    if (reader.field() == 5) left.reason += "; " + text_of(reader.bytes(), 1) + ": " + text_of(reader.bytes(), 2);
  }
  return reader.well_formed();
}

bool read(std::string_view encoded, Plan& plan) {
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) plan.handle = reader.integer();
    if (reader.field() == 2) is_well_formed &= read(reader.bytes(), plan.groups.emplace_back());
    if (reader.field() == 3) is_well_formed &= read(reader.bytes(), plan.left.emplace_back());
    if (reader.field() == 6) is_well_formed &= read(reader.bytes(), plan.loaded.emplace());
  }
  return is_well_formed && reader.well_formed();
}

bool read(std::string_view encoded, DeviceInfo& device) {
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == 1) device.name = reader.text();
    if (reader.field() == 2) device.version = reader.text();
    if (reader.field() == 3) device.type = reader.integer32();
    if (reader.field() == 5) device.is_available = reader.number();
    if (reader.field() == 6) device.feature_level = reader.integer32();
    if (reader.field() != 7) continue;
    FieldReader extension(reader.bytes());
    while (extension.next())
      if (extension.field() == 1) device.extensions.push_back(extension.text());
    is_well_formed &= extension.well_formed();
  }
  return is_well_formed && reader.well_formed();
}

// A field with a message that an answer must have, such as the result of an execution.
template <typename T>
Result<T> decode_field(std::string_view encoded, int field, const std::string& place, const char* what) {
  T found;
  bool is_there = false, is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() != field || !reader.is_bytes()) continue;
    found = {};
    is_there = true;
    is_well_formed = read(reader.bytes(), found);
  }
  if (!reader.well_formed() || !is_well_formed) return malformed(place, what);
  if (!is_there) return Status(Code::kGeneralFailure, place + ": an answer without " + what);
  return found;
}

template <typename T>
Result<std::vector<T>> decode_repeated(std::string_view encoded, int field, const std::string& place,
                                       const char* what) {
  std::vector<T> found;
  bool is_well_formed = true;
  FieldReader reader(encoded);
  while (reader.next())
    if (reader.field() == field) is_well_formed &= read(reader.bytes(), found.emplace_back());
  if (!reader.well_formed() || !is_well_formed) return malformed(place, what);
  return found;
}

// Fields 'status' and 'message', wherever a message has them.
Status decode_status(std::string_view encoded, int status_field, int message_field, const std::string& place,
                     const char* what) {
  std::int32_t code = 0;
  std::string text;
  FieldReader reader(encoded);
  while (reader.next()) {
    if (reader.field() == status_field) code = reader.integer32();
    if (reader.field() == message_field) text = reader.text();
  }
  if (!reader.well_formed()) return malformed(place, what);
  return code ? Status::answered(static_cast<Code>(code), place + ": " + text) : Status();
}

}  // namespace

Result<ExecutionResult> decode_burst_answer(std::string_view encoded, const std::string& place) {
  if (Status status = decode_status(encoded, 1, 2, place, "answer of a burst"); !status.ok()) return status;
  return decode_field<ExecutionResult>(encoded, 3, place, "result of an execution");
}

Status decode_run_answer(std::string_view encoded, const std::string& place, RunReport* report) {
  const Status status = decode_status(encoded, 1, 2, place, "answer of a run");
  *report = {};
  bool is_well_formed = true;
  for (FieldReader reader(encoded); reader.next();)
    if (reader.field() == 3) is_well_formed &= read(reader.bytes(), *report);
  return status.ok() && !is_well_formed ? malformed(place, "answer of a run") : status;
}

Status decode_launched_run(std::string_view encoded, const std::string& place, RunReport* report) {
  const Status status = decode_run_answer(encoded, place, report);
  bool is_well_formed = true;
  for (FieldReader reader(encoded); reader.next();) {
    if (reader.field() == 4) is_well_formed &= read(reader.bytes(), report->launched);
    if (reader.field() == 5) is_well_formed &= read(reader.bytes(), report->fenced);
  }
  return status.ok() && !is_well_formed ? malformed(place, "answer of a launched run") : status;
}

Result<std::vector<bool>> decode_supported(std::string_view encoded, std::size_t operations, const std::string& place) {
  std::vector<std::uint8_t> supported;
  FieldReader reader(encoded);
  while (reader.next())
    if (reader.field() == 1) reader.append_to(supported);
  if (!reader.well_formed() || supported.size() != operations)
    return Status(Code::kGeneralFailure, place + " answers for " + std::to_string(supported.size()) + " of " +
                                             std::to_string(operations) + " operations");
  return std::vector<bool>(supported.begin(), supported.end());
}

Result<LoadedModel> decode_model(std::string_view encoded, const std::string& place) {
  return decode_field<LoadedModel>(encoded, 1, place, "description of a model");
}

Result<Plan> decode_plan(std::string_view encoded, const std::string& place) {
  Plan plan;
  if (!read(encoded, plan)) return malformed(place, "plan");
  return plan;
}

Result<std::vector<DeviceInfo>> decode_devices(std::string_view encoded, const std::string& place) {
  return decode_repeated<DeviceInfo>(encoded, 1, place, "list of devices");
}

Result<std::vector<OutputReport>> decode_known_outputs(std::string_view encoded, const std::string& place) {
  Result<std::vector<OutputReport>> known = decode_repeated<OutputReport>(encoded, 4, place, "report of an output");
  Result<std::vector<OutputReport>> lacking = decode_repeated<OutputReport>(encoded, 5, place, "report of an output");
  if (!known.ok() || !lacking.ok()) return known.ok() ? lacking : known;
  known->insert(known->end(), lacking->begin(), lacking->end());
  return known;
}

}  // namespace nnhal::client
