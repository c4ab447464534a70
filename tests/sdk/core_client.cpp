// A client that is built on the core alone:
//
//     core_client DIR    has the framework of that folder add
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nnhal/client/framework.h"
#include "nnhal/fence.h"
#include "nnhal/memory.h"

using namespace nnhal;
using namespace nnhal::client;

namespace {

constexpr std::int64_t kElements = 8;
constexpr std::int64_t kBytes = kElements * sizeof(float);

constexpr std::int64_t kPatienceNs = 30'000'000'000;

Patience patience() { return {now_ns() + kPatienceNs}; }

[[noreturn]] void end_with(const Status& status) {
  std::fprintf(stderr, "%s\n", status.words().c_str());
  std::exit(1);
}

void require(const Status& status) {
  if (!status.ok()) end_with(status);
}

template <typename T>
T required(Result<T> result) {
  require(result.status());
  return std::move(*result);
}

// ADD of two vectors. docs/reference/operations.md says which operands it has: two tensors, and the number of an activation.
Model addition() {
  Model model;
  const auto vector = [](LifeTime lifetime) {
    Operand operand;
    operand.type = 3;  // TENSOR_FLOAT32
    operand.dimensions = {kElements};
    operand.lifetime = lifetime;
    return operand;
  };
  Operand scalar;
  scalar.type = 1;  // INT32
  const std::int32_t none = 0;
  const std::int32_t first = model.main.add(vector(LifeTime::kInput)),
                     second = model.main.add(vector(LifeTime::kInput));
  const std::int32_t activation = model.add_constant(scalar, &none, sizeof none);
  const std::int32_t sum = model.main.add(vector(LifeTime::kOutput));
  model.main.operations.push_back({0, {first, second, activation}, {sum}});
  model.main.inputs = {first, second};
  model.main.outputs = {sum};
  return model;
}

// Two terms and their sum in one pool.
class Terms {
 public:
  explicit Terms(Link& link)
      : memory_(required(SharedMemory::make(3 * kBytes))), id_(required(link.put(memory_.file))) {}

  Message pool() const { return ashmem(id_, 3 * kBytes); }
  void fill(float first, float second) {
    for (std::int64_t index = 0; index < kElements; ++index) {
      values()[index] = first;
      values()[kElements + index] = second;
      values()[2 * kElements + index] = -1;
    }
  }
  // The sum of all elements, which are equal, if they are right.
  void print_sum(const char* way) {
    std::printf("%s:", way);
    for (std::int64_t index = 0; index < kElements; ++index) std::printf(" %g", values()[2 * kElements + index]);
    std::printf("\n");
  }
  float* values() { return reinterpret_cast<float*>(memory_.data()); }

 private:
  SharedMemory memory_;
  std::uint64_t id_;
};

void use_framework(const std::string& directory) {
  auto framework = required(Framework::open(directory));
  std::printf("answers are numbered: %d\n", framework->link().numbers_answers());
  for (const DeviceInfo& device : required(framework->devices()))
    std::printf("knows: %s, level %d, %s\n", device.name.c_str(), device.feature_level,
                device.is_available ? "here" : "away");
  const LoadedModel model = required(framework->load("addition", addition()));
  std::printf("loaded: %s, %zu inputs, %s of %lld bytes\n", model.name.c_str(), model.inputs.size(),
              model.outputs[0].name.c_str(), static_cast<long long>(model.outputs[0].byte_size));
  Terms terms(framework->link());
  const std::vector<BoundTensor> inputs = {{"input0", {0, 0, kBytes}, {}}, {"input1", {0, kBytes, kBytes}, {}}};
  const std::vector<BoundTensor> outputs = {{"output0", {0, 2 * kBytes, kBytes}, {}}};
  RunReport report;
  const auto show = [&](const char* way) {
    terms.print_sum(way);
    std::printf("direct: %d, fell back: %d\n", report.is_direct, report.fell_back);
  };

  auto binding = required(framework->bind("addition", inputs, outputs, {terms.pool()}));
  terms.fill(1, 2);
  require(binding->run(&report, kNoTime, patience()));
  show("on the device");
  terms.fill(3, 4);
  require(binding->run(&report, now_ns() + kPatienceNs, patience()));
  show("with a deadline");

  auto [signal, fence] = required(make_fence());
  terms.fill(5, 6);
  LaunchedRun launched = required(framework->launch(*binding, {&fence}));
  if (!launched.fence) end_with({Code::kGeneralFailure, "the run has not waited"});
  signal.send();
  require(launched.fence->wait(patience().deadline_ns));
  require(framework->launched_run(launched.handle));
  require(framework->release(launched.handle));
  terms.print_sum("launched");

  auto [other_signal, other_fence] = required(make_fence());
  launched = required(framework->launch(*binding, {&other_fence}));
  require(framework->cancel(launched.handle));
  other_signal.send();  // which it has waited for: it does not begin now
  std::printf("cancelled: %s\n", launched.fence->wait(patience().deadline_ns).words().c_str());

  auto plain = required(framework->bind("addition", inputs, outputs, {terms.pool()}, {/*wants_run_channel=*/false}));
  terms.fill(7, 8);
  require(plain->run(&report, kNoTime, patience()));
  show("through the framework");

  std::printf("unknown: %s\n", framework->rpc().call("FrameworkService/Nothing", Message()).status().words().c_str());
  std::printf("not put: %s\n", framework->link().take(12345).status().words().c_str());
  require(framework->unload("addition"));
  std::printf("unloaded: %s\n", name_of(binding->run(&report, kNoTime, patience()).code()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: %s DIR\n", arguments[0]), 2;
  use_framework(arguments[1]);
  return 0;
}
