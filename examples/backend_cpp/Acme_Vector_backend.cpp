// A backend in C++: a device that takes ADD, MUL and RELU on float32, with the reasons of what it does not take.
//
//     g++ -std=c++17 -O2 -shared -fPIC -Wl,-z,defs -I "$(python -m nnhal_devices.dynamic)" Acme_Vector_backend.cpp -o Acme_Vector_backend.so
//     nnhal device Vector --endpoint /tmp/vector --backend-path "$PWD"
//
// Copy it, and compute on your hardware instead. The host has checked models and requests, and mapped their memory.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "nnhal_backend.h"

namespace {

enum Type { kFloat32 = 3 };
enum Op { kAdd = 0, kMul = 18, kRelu = 19 };
enum Status { kNone = 0, kGeneralFailure = 2, kInvalidArgument = 4 };

using Dimensions = std::vector<uint32_t>;

// --- What the device can do ---------------------------------------------------------------------------------------------------

// Why not, in words of the model. Thrown, and told to the host at the border to C.
struct Refusal {
  std::string code, got, allowed;
};

Dimensions dimensions_of(const NnhalOperand& operand) { return {operand.dimensions, operand.dimensions + operand.rank}; }

std::string words(const Dimensions& dimensions) {
  std::string all = "[";
  for (const uint32_t each : dimensions) all += (all.size() > 1 ? ", " : "") + (each ? std::to_string(each) : std::string("?"));
  return all + "]";
}

std::size_t count(const Dimensions& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), std::size_t{1}, std::multiplies<>());
}

// The dimensions of a tensor of float32 that are all known.
Dimensions float_tensor(const NnhalOperand& operand, const char* name) {
  if (operand.type != kFloat32) throw Refusal{"DTYPE", std::string(name) + " of type " + std::to_string(operand.type), "float32"};
  const Dimensions dimensions = dimensions_of(operand);
  if (dimensions.empty() || std::count(dimensions.begin(), dimensions.end(), 0u) > 0) {
    throw Refusal{"DYN_SHAPE", std::string(name) + " of " + words(dimensions), "known dimensions"};
  }
  return dimensions;
}

// The bounds of a fused activation, which is compiled in.
std::pair<float, float> bounds(const NnhalOperand& activation) {
  if (activation.data == nullptr) throw Refusal{"CONSTANT", "an activation that is no constant", "a constant"};
  int32_t code;
  std::memcpy(&code, activation.data, sizeof code);
  constexpr float kAll = std::numeric_limits<float>::infinity();
  constexpr std::pair<float, float> kBounds[] = {{-kAll, kAll}, {0, kAll}, {-1, 1}, {0, 6}};
  if (code < 0 || code > 3) throw Refusal{"ACTIVATION", "activation " + std::to_string(code), "0 to 3"};
  return kBounds[code];
}

void require_shape(const NnhalOperand& output, const Dimensions& expected) {
  const Dimensions dimensions = float_tensor(output, "the output");
  if (dimensions != expected) throw Refusal{"SHAPE", "an output of " + words(dimensions), words(expected)};
}

// --- How it computes ----------------------------------------------------------------------------------------------------------

// One operation, compiled: what it does, given the memory of all values of the model.
using Step = std::function<void(float* const* values)>;

Step compiled_pair(const NnhalModel& model, const NnhalOperation& op) {
  const uint32_t a = op.inputs[0], b = op.inputs[1], out = op.outputs[0];
  const Dimensions first = float_tensor(model.operands[a], "input 0"), second = float_tensor(model.operands[b], "input 1");
  if (first != second) throw Refusal{"SHAPE", words(first) + " and " + words(second), "two tensors of one shape"};
  require_shape(model.operands[out], first);
  const auto [low, high] = bounds(model.operands[op.inputs[2]]);
  return [=, low = low, high = high, size = count(first), is_product = op.type == kMul](float* const* values) {
    for (std::size_t i = 0; i < size; i++) {
      const float x = values[a][i], y = values[b][i];
      values[out][i] = std::min(std::max(is_product ? x * y : x + y, low), high);
    }
  };
}

Step compiled_relu(const NnhalModel& model, const NnhalOperation& op) {
  const uint32_t in = op.inputs[0], out = op.outputs[0];
  const Dimensions dimensions = float_tensor(model.operands[in], "input 0");
  require_shape(model.operands[out], dimensions);
  return [=, size = count(dimensions)](float* const* values) {
    for (std::size_t i = 0; i < size; i++) values[out][i] = std::max(values[in][i], 0.0f);
  };
}

Step compiled(const NnhalModel& model, const NnhalOperation& op) {
  switch (op.type) {
    case kAdd: case kMul: return compiled_pair(model, op);
    case kRelu: return compiled_relu(model, op);
    default: throw Refusal{"OP", "operation type " + std::to_string(op.type), "ADD, MUL and RELU"};
  }
}

struct Workload {
  const NnhalModel& model; // It is there until the release.
  std::vector<Step> steps;
};

// A workload on the memory of one execution, with what its runs compute in between: one runs at a time.
struct Binding {
  const Workload& workload;
  std::vector<std::vector<float>> scratch;
  std::vector<float*> values;
};

// --- The border to C ----------------------------------------------------------------------------------------------------------

int32_t assess(void*, const NnhalModel* model, uint32_t operation, NnhalReason* reason) {
  try {
    compiled(*model, model->operations[operation]);
    return 1;
  } catch (const Refusal& refusal) {
    std::snprintf(reason->code, NNHAL_CODE, "%s", refusal.code.c_str());
    std::snprintf(reason->got, NNHAL_WORDS, "%s", refusal.got.c_str());
    std::snprintf(reason->allowed, NNHAL_WORDS, "%s", refusal.allowed.c_str());
    return 0;
  }
}

int32_t prepare(void*, const NnhalModel* model, void** workload, char*) {
  auto* made = new Workload{*model, {}};
  for (uint32_t i = 0; i < model->operation_count; i++) made->steps.push_back(compiled(*model, model->operations[i]));
  *workload = made;
  return kNone;
}

int32_t bind(void* workload, const NnhalArgument* inputs, NnhalArgument* outputs, void** binding, char* words) {
  const Workload& bound = *static_cast<Workload*>(workload);
  const NnhalModel& model = bound.model;
  std::vector<std::vector<float>> scratch;
  std::vector<float*> values(model.operand_count);
  const auto place = [&](uint32_t index, void* data) { values[index] = static_cast<float*>(data); return data != nullptr; };
  for (uint32_t i = 0; i < model.operand_count; i++) values[i] = static_cast<float*>(const_cast<void*>(model.operands[i].data));
  bool whole = true;
  for (uint32_t i = 0; i < model.input_count; i++) whole &= place(model.inputs[i], inputs[i].data);
  for (uint32_t i = 0; i < model.output_count; i++) whole &= place(model.outputs[i], outputs[i].data);
  if (!whole) return std::snprintf(words, NNHAL_WORDS, "an argument is left out"), kInvalidArgument;
  for (uint32_t i = 0; i < model.operation_count; i++) {
    const uint32_t made = model.operations[i].outputs[0];
    if (values[made] == nullptr) values[made] = scratch.emplace_back(count(dimensions_of(model.operands[made]))).data();
  }
  *binding = new Binding{bound, std::move(scratch), std::move(values)};
  return kNone;
}

int32_t execute(void* binding, const NnhalArgument*, NnhalArgument*, NnhalRun* run, char*) {
  const Binding& bound = *static_cast<Binding*>(binding);
  for (const Step& step : bound.workload.steps) {
    if (*run->cancelled) return kGeneralFailure; // The host says why.
    step(bound.values.data());
  }
  return kNone;
}

NnhalBackend made() {
  NnhalBackend backend{};
  backend.size = sizeof backend;
  backend.version = "acme-vector-1.0";
  backend.device_type = 2; // A CPU.
  backend.exec_time = backend.power_usage = 1.0f;
  backend.realisation = "loops in C++ on this machine's CPU";
  backend.assess = assess;
  backend.prepare = prepare;
  backend.bind = bind;
  backend.execute = execute;
  backend.unbind = [](void* binding) { delete static_cast<Binding*>(binding); };
  backend.release = [](void* workload) { delete static_cast<Workload*>(workload); };
  return backend;
}

}  // namespace

extern "C" {
const char* GetBackendId(void) { return "Vector"; }

void GetVersion(uint32_t* major, uint32_t* minor) { *major = NNHAL_BACKEND_MAJOR, *minor = NNHAL_BACKEND_MINOR; }

void* BackendFactory(void) {
  static NnhalBackend backend = made();
  return &backend;
}
}
