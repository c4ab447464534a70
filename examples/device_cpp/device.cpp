// A device of nnhal in C++: ADD, MUL, RELU and FULLY_CONNECTED on float32. Copy it, and compute on your hardware instead.
//
// All that is left to a device is here: what it can do, and why it cannot do the rest; compiling; running. The server around it
// has checked the structure of models and requests, and mapped their memory.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "nnhal/device.h"

namespace {

using nnhal::Arguments;
using nnhal::Code;
using nnhal::Dimensions;
using nnhal::Model;
using nnhal::Status;
using nnhal::Support;
namespace v1 = nnhal::v1;

constexpr std::size_t kMostAxes = 4;

Dimensions dimensions_of(const v1::Operand& operand) { return {operand.dimensions().begin(), operand.dimensions().end()}; }

std::string words(const Dimensions& dimensions) {
  std::string all = "[";
  for (const int each : dimensions) all += (all.size() > 1 ? ", " : "") + (each ? std::to_string(each) : std::string("?"));
  return all + "]";
}

std::int64_t count(const Dimensions& dimensions) {
  std::int64_t product = 1;
  for (const int each : dimensions) product *= each;
  return product;
}

// --- What the device can do ---------------------------------------------------------------------------------------------------

bool has_type(const v1::Operand& operand, v1::OperandType type) { return operand.type() == type; }

// Refuses what is no tensor of float32 with known dimensions, of at most four axes.
Support float_tensor(const v1::Operand& operand, const std::string& name) {
  if (!has_type(operand, v1::OPERAND_TYPE_TENSOR_FLOAT32)) {
    return Support::no("DTYPE", name + " of " + v1::OperandType_Name(operand.type()), "TENSOR_FLOAT32");
  }
  if (operand.lifetime() == v1::OPERAND_LIFE_TIME_NO_VALUE) return Support::no("NO_IMPL", name + " left out", name + " given");
  const Dimensions dimensions = dimensions_of(operand);
  if (dimensions.empty() || std::count(dimensions.begin(), dimensions.end(), 0) > 0) {
    return Support::no("DYN_SHAPE", name + " of " + words(dimensions), "known dimensions");
  }
  if (dimensions.size() > kMostAxes) return Support::no("RANK", name + " of " + words(dimensions), "at most 4 axes");
  return {};
}

// Refuses an activation that is not known now: it is compiled in.
Support activation(const Model& model, int index) {
  if (!has_type(model.operand(index), v1::OPERAND_TYPE_INT32)) {
    return Support::no("DTYPE", "activation of " + v1::OperandType_Name(model.operand(index).type()), "INT32");
  }
  if (!model.is_constant(index)) return Support::no("CONSTANT", "an activation that is no constant", "a constant");
  const int value = model.scalar<std::int32_t>(index, -1);
  if (value < 0 || value > 3) return Support::no("ACTIVATION", "activation " + std::to_string(value), "0 to 3");
  return {};
}

// The dimensions of an elementwise operation on two tensors; empty if they do not fit each other.
Dimensions broadcast(Dimensions a, Dimensions b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (std::size_t i = 0; i < a.size(); i++) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return {};
    a[i] = a[i] == 1 ? b[i] : a[i];
  }
  return a;
}

Support dimensions_are(const v1::Operand& output, const Dimensions& expected) {
  if (dimensions_of(output) == expected && !expected.empty()) return {};
  return Support::no("SHAPE", "an output of " + words(dimensions_of(output)), words(expected));
}

Support first_refusal(std::initializer_list<std::function<Support()>> checks) {
  for (const auto& check : checks) {
    if (Support answer = check(); !answer.supported) return answer;
  }
  return {};
}

// A model with another number of operands is none that another device could take: it is invalid.
void require_operands(const v1::Operation& op, int inputs) {
  if (op.inputs_size() == inputs && op.outputs_size() == 1) return;
  throw nnhal::Failure(Code::kInvalidArgument, std::to_string(op.inputs_size()) + " inputs and " +
                       std::to_string(op.outputs_size()) + " outputs, expected " + std::to_string(inputs) + " and 1");
}

Support supports_pair(const Model& model, const v1::Operation& op) {
  require_operands(op, 3);
  const auto operand = [&](int i) -> const v1::Operand& { return model.operand(op.inputs(i)); };
  const v1::Operand& out = model.operand(op.outputs(0));
  return first_refusal({[&] { return float_tensor(operand(0), "input 0"); },
                        [&] { return float_tensor(operand(1), "input 1"); }, [&] { return activation(model, op.inputs(2)); },
                        [&] { return float_tensor(out, "output 0"); }, [&] {
                          return dimensions_are(out, broadcast(dimensions_of(operand(0)), dimensions_of(operand(1))));
                        }});
}

Support supports_relu(const Model& model, const v1::Operation& op) {
  require_operands(op, 1);
  const v1::Operand& out = model.operand(op.outputs(0));
  return first_refusal({[&] { return float_tensor(model.operand(op.inputs(0)), "input 0"); },
                        [&] { return float_tensor(out, "output 0"); },
                        [&] { return dimensions_are(out, dimensions_of(model.operand(op.inputs(0)))); }});
}

Support supports_fully_connected(const Model& model, const v1::Operation& op) {
  require_operands(op, 4);
  const auto operand = [&](int i) -> const v1::Operand& { return model.operand(op.inputs(i)); };
  const v1::Operand& out = model.operand(op.outputs(0));
  return first_refusal({[&] { return float_tensor(operand(0), "input 0"); },
                        [&] { return float_tensor(operand(1), "the weights"); },
                        [&] { return float_tensor(operand(2), "the bias"); }, [&] { return activation(model, op.inputs(3)); },
                        [&] { return float_tensor(out, "output 0"); }, [&] {
                          const Dimensions in = dimensions_of(operand(0)), weights = dimensions_of(operand(1));
                          const Dimensions bias = dimensions_of(operand(2));
                          if (in.size() < 2 || weights.size() != 2 || count(in) % weights[1] != 0 ||
                              bias != Dimensions{weights[0]}) {
                            return Support::no("SHAPE", "weights of " + words(weights) + " and a bias of " + words(bias) +
                                                            " for " + words(in), "[units, n], [units] and n values a row");
                          }
                          return dimensions_are(out, {static_cast<int>(count(in) / weights[1]), weights[0]});
                        }});
}

Support supports(const Model& model, const v1::Operation& op) {
  switch (op.type()) {
    case v1::OPERATION_TYPE_ADD: case v1::OPERATION_TYPE_MUL: return supports_pair(model, op);
    case v1::OPERATION_TYPE_RELU: return supports_relu(model, op);
    case v1::OPERATION_TYPE_FULLY_CONNECTED: return supports_fully_connected(model, op);
    default: return Support::no("OP", v1::OperationType_Name(op.type()), "ADD, MUL, RELU and FULLY_CONNECTED");
  }
}

// --- How it computes ----------------------------------------------------------------------------------------------------------

struct Range {
  float low, high;
};

Range range_of(int activation) {
  constexpr float kAll = std::numeric_limits<float>::infinity();
  constexpr Range kRanges[] = {{-kAll, kAll}, {0, kAll}, {-1, 1}, {0, 6}};
  return kRanges[activation];
}

// One operation, compiled: what it does, given the memory of all values of the model.
using Values = std::vector<float*>;
using Step = std::function<void(const Values&)>;

Step compiled_pair(const Model& model, const v1::Operation& op) {
  const int a = op.inputs(0), b = op.inputs(1), out = op.outputs(0);
  const bool is_product = op.type() == v1::OPERATION_TYPE_MUL;
  const Range range = range_of(model.scalar<std::int32_t>(op.inputs(2), 0));
  // Where each value of the output finds its two: an extent of 1 is the same value each time.
  const Dimensions to = dimensions_of(model.operand(out));
  const auto places = [&to](Dimensions from) {
    from.insert(from.begin(), to.size() - from.size(), 1);
    std::vector<std::int32_t> found(count(to));
    for (std::size_t i = 0; i < found.size(); i++) {
      std::int64_t rest = static_cast<std::int64_t>(i), stride = 1, at = 0;
      for (std::size_t axis = to.size(); axis-- > 0; rest /= to[axis]) {
        at += from[axis] == 1 ? 0 : rest % to[axis] * stride;
        stride *= from[axis];
      }
      found[i] = static_cast<std::int32_t>(at);
    }
    return found;
  };
  return [=, first = places(dimensions_of(model.operand(a))), second = places(dimensions_of(model.operand(b)))](
             const Values& values) {
    for (std::size_t i = 0; i < first.size(); i++) {
      const float x = values[a][first[i]], y = values[b][second[i]];
      values[out][i] = std::min(std::max(is_product ? x * y : x + y, range.low), range.high);
    }
  };
}

Step compiled_relu(const Model& model, const v1::Operation& op) {
  const int in = op.inputs(0), out = op.outputs(0);
  return [in, out, size = count(dimensions_of(model.operand(out)))](const Values& values) {
    for (std::int64_t i = 0; i < size; i++) values[out][i] = std::max(values[in][i], 0.0f);
  };
}

Step compiled_fully_connected(const Model& model, const v1::Operation& op) {
  const int in = op.inputs(0), weights = op.inputs(1), bias = op.inputs(2), out = op.outputs(0);
  const std::int64_t units = model.operand(weights).dimensions(0), width = model.operand(weights).dimensions(1);
  const std::int64_t rows = model.operand(out).dimensions(0);
  const Range range = range_of(model.scalar<std::int32_t>(op.inputs(3), 0));
  return [=](const Values& values) {
    for (std::int64_t row = 0; row < rows; row++) {
      for (std::int64_t unit = 0; unit < units; unit++) {
        double sum = values[bias][unit];
        for (std::int64_t i = 0; i < width; i++) sum += double{values[in][row * width + i]} * values[weights][unit * width + i];
        values[out][row * units + unit] = std::min(std::max(static_cast<float>(sum), range.low), range.high);
      }
    }
  };
}

class Program final : public nnhal::Prepared {
 public:
  explicit Program(std::shared_ptr<const Model> model) : model_(std::move(model)) {
    for (const v1::Operation& op : model_->main().operations()) {
      switch (op.type()) {
        case v1::OPERATION_TYPE_RELU: steps_.push_back(compiled_relu(*model_, op)); break;
        case v1::OPERATION_TYPE_FULLY_CONNECTED: steps_.push_back(compiled_fully_connected(*model_, op)); break;
        default: steps_.push_back(compiled_pair(*model_, op));
      }
    }
    for (int i = 0; i < model_->main().operands_size(); i++) {
      if (model_->is_constant(i)) constants_.emplace_back(i, model_->constant(model_->operand(i)).copy<float>());
      if (model_->operand(i).lifetime() == v1::OPERAND_LIFE_TIME_TEMPORARY_VARIABLE) temporaries_.push_back(i);
    }
  }

  Status execute(Arguments& arguments) override {
    // Runs may overlap, so that what they write is their thread's own. It stays there for the next run.
    thread_local Values values;
    thread_local std::vector<std::vector<float>> scratch;
    const v1::Subgraph& main = model_->main();
    values.assign(main.operands_size(), nullptr);
    scratch.resize(std::max(scratch.size(), temporaries_.size()));
    for (auto& [index, constant] : constants_) values[index] = constant.data();
    for (std::size_t i = 0; i < temporaries_.size(); i++) {
      const std::size_t size = count(dimensions_of(model_->operand(temporaries_[i])));
      if (scratch[i].size() < size) scratch[i].resize(size);
      values[temporaries_[i]] = scratch[i].data();
    }
    for (int i = 0; i < main.input_indexes_size(); i++) {
      if (arguments.inputs[i].data == nullptr) return {Code::kInvalidArgument, "input " + std::to_string(i) + " is left out"};
      values[main.input_indexes(i)] = const_cast<float*>(arguments.input<float>(i));
    }
    for (int i = 0; i < main.output_indexes_size(); i++) {
      if (arguments.outputs[i].data == nullptr) return {Code::kInvalidArgument, "output " + std::to_string(i) + " is left out"};
      values[main.output_indexes(i)] = arguments.output<float>(i);
    }
    for (const Step& step : steps_) {
      arguments.check();
      step(values);
    }
    return {};
  }

 private:
  const std::shared_ptr<const Model> model_;
  std::vector<Step> steps_;
  std::vector<std::pair<int, std::vector<float>>> constants_;
  std::vector<int> temporaries_;
};

class Sample final : public nnhal::Driver {
 public:
  std::string name() const override { return "device_cpp"; }
  std::string version() const override { return "device_cpp-1.0"; }
  std::string realisation() const override { return "loops in C++ on this machine's CPU"; }
  v1::DeviceType type() const override { return v1::DEVICE_TYPE_CPU; }

  v1::Capabilities capabilities() const override {
    v1::PerformanceInfo same;  // as fast as the reference
    same.set_exec_time(1);
    same.set_power_usage(1);
    v1::Capabilities capabilities;
    *capabilities.mutable_relaxed_float32_to_float16_performance_scalar() = same;
    *capabilities.mutable_relaxed_float32_to_float16_performance_tensor() = same;
    *capabilities.mutable_if_performance() = same;
    *capabilities.mutable_while_performance() = same;
    v1::OperandPerformance& of_floats = *capabilities.add_operand_performance();
    of_floats.set_type(v1::OPERAND_TYPE_TENSOR_FLOAT32);
    *of_floats.mutable_info() = same;
    return capabilities;
  }

  std::vector<Support> supported(const Model& model) const override {
    std::vector<Support> answers;
    for (const v1::Operation& op : model.main().operations()) answers.push_back(supports(model, op));
    return answers;
  }

  std::unique_ptr<nnhal::Prepared> prepare(std::shared_ptr<const Model> model, const nnhal::Preparation&) override {
    return std::make_unique<Program>(std::move(model));
  }
};

}  // namespace

int main(int argc, char** argv) {
  Sample sample;
  return nnhal::serve(sample, argc, argv);
}
