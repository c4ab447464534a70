// A client that is built on the core alone:
//
//     core_client device DIR [MILLISECONDS]    adds by each way of executing on a device process
//     core_client framework DIR                has a framework add
//
// No run on a channel may take longer than so many milliseconds, 30,000 without them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "nnhal/client/device.h"
#include "nnhal/client/framework.h"
#include "nnhal/fence.h"
#include "nnhal/memory.h"

using namespace nnhal;
using namespace nnhal::client;

namespace {

constexpr std::int64_t kElements = 8;
constexpr std::int64_t kBytes = kElements * sizeof(float);

std::int64_t patience_ns = 30'000'000'000;

Patience patience() { return {now_ns() + patience_ns}; }

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

// ADD of two vectors. docs/operations.md says which operands it has: two tensors, and the number of an activation.
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
  Request request() const {
    Request request;
    request.inputs = {{{0, 0, kBytes}, {}}, {{0, kBytes, kBytes}, {}}};
    request.outputs = {{{0, 2 * kBytes, kBytes}, {}}};
    request.pools = {client::pool(pool())};
    return request;
  }
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

void require_fit(const Result<ExecutionResult>& result) {
  require(result.status());
  if (!result->fits) end_with({Code::kGeneralFailure, "an output does not fit"});
}

// Launches an execution that waits for a fence of ours, signals that, and waits for the execution's own fence.
void run_launched(Device& device, std::int64_t execution) {
  auto launcher = required(device.open_launcher());
  auto [signal, fence] = required(make_fence());
  std::optional<Fence> ended = required(launcher->launch(execution, {&fence}, kNoTime, kNoTime, patience()));
  if (!ended) end_with({Code::kGeneralFailure, "the execution has not waited"});
  std::printf("before its fence: %s\n", launcher->info(execution).status().words().c_str());
  signal.send();
  require(ended->wait(patience().deadline_ns));
  require(launcher->info(execution).status());
}

// Each thread has memory, an execution and a burst of its own.
void run_in_threads(Device& device, std::int64_t prepared_model) {
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index)
    threads.emplace_back([&device, prepared_model, index] {
      Terms terms(device.link());
      const std::int64_t execution = required(device.create_execution(prepared_model, terms.request()));
      auto burst = required(device.open_burst(prepared_model));
      for (int round = 0; round < 50; ++round) {
        terms.fill(static_cast<float>(index), static_cast<float>(round));
        require_fit(burst->run(execution));
        if (terms.values()[2 * kElements] != static_cast<float>(index + round))
          end_with({Code::kGeneralFailure, "a thread got the sum of another"});
      }
      require(device.release_execution(execution));
    });
  for (std::thread& thread : threads) thread.join();
}

void use_device(const std::string& directory) {
  auto device = required(Device::open(directory));
  std::printf("device: %s\n", required(device->version()).c_str());
  std::printf("answers are numbered: %d\n", device->link().numbers_answers());
  const Model model = addition();
  std::printf("supported: %d\n", static_cast<int>(required(device->supported_operations(model))[0]));
  const std::int64_t prepared_model = required(device->prepare(model));
  Terms terms(device->link());

  terms.fill(1, 2);
  require_fit(device->execute(prepared_model, terms.request(), kNoTime, patience()));
  terms.print_sum("by a call");

  const std::int64_t execution = required(device->create_execution(prepared_model, terms.request()));
  auto burst = required(device->open_burst(prepared_model));
  terms.fill(3, 4);
  require_fit(burst->run(execution, kNoTime, patience()));
  terms.print_sum("in a burst");
  terms.fill(5, 6);
  require_fit(burst->execute(terms.request(), {-1}, kNoTime, patience()));
  terms.print_sum("in a burst, once");

  auto run_channel = required(device->open_run_channel(execution));
  terms.fill(7, 8);
  require_fit(run_channel->run(execution, kNoTime, patience()));
  terms.print_sum("on a run channel");

  terms.fill(9, 10);
  run_launched(*device, execution);
  terms.print_sum("launched");

  run_in_threads(*device, prepared_model);

  std::printf("too late: %s\n", burst->run(execution, 1).status().words().c_str());
  Request beyond = terms.request();
  beyond.outputs[0].location.offset = 3 * kBytes;
  std::printf("beyond: %s\n", device->execute(prepared_model, beyond).status().words().c_str());
  std::printf("unknown: %s\n", device->rpc().call("DeviceService/Nothing", Message()).status().words().c_str());
  std::printf("not put: %s\n", device->link().take(12345).status().words().c_str());
  require(device->release_prepared_model(prepared_model));
}

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
  require(binding->run(&report, now_ns() + patience_ns, patience()));
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

  require(framework->unload("addition"));
  std::printf("unloaded: %s\n", name_of(binding->run(&report, kNoTime, patience()).code()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string kind = count >= 3 ? arguments[1] : "";
  if (count == 4) patience_ns = std::atoll(arguments[3]) * 1'000'000;
  if (kind == "device")
    use_device(arguments[2]);
  else if (kind == "framework")
    use_framework(arguments[2]);
  else
    return std::fprintf(stderr, "usage: %s device|framework DIR [MILLISECONDS]\n", arguments[0]), 2;
  return 0;
}
