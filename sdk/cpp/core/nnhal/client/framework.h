// A session with the framework: models that it splits over devices, and runs of them.
#ifndef NNHAL_CLIENT_FRAMEWORK_H_
#define NNHAL_CLIENT_FRAMEWORK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../fence.h"
#include "../status.h"
#include "../waiting.h"
#include "channel.h"
#include "link.h"
#include "messages.h"
#include "model.h"
#include "rpc.h"

namespace nnhal::client {

// Where an input or output of a loaded model lies.
struct BoundTensor {
  std::string name;
  Location location;
  std::vector<std::uint32_t> dimensions;  // those that refine the model's; empty takes the model's
  bool is_omitted = false;
  std::int64_t memory = 0;  // the handle of memory from allocate(), which is used whole; 0 for none
  // Of an output: what no device may contradict, a 0 for an axis that is open and nothing for an open rank, and the
  // bytes of an element; 0 if they are not to be compared with the memory.
  std::vector<std::int64_t> declared{};
  std::size_t element_bytes = 0;
};

// The dimensions of an input. As options of a load, those that the file leaves open, and 0 for one that stays so.
struct InputDimensions {
  std::string name;
  std::vector<std::uint32_t> dimensions;
};

// What is checked of a model that is not loaded yet.
enum class Check {
  kDraft,   // its operands and operations alone: it is still being built
  kRules,   // all that can be said without the values of constants
  kValues,  // these too, and the dimensions that follow from one another, as loading does
};

// A loaded model that is tied to memory. It runs once at a time; a second thread waits. When it goes, it is released.
class Binding {
 public:
  // Runs it: directly on the devices if the binding has a run channel and the run no deadline, else through the
  // framework. A direct run that fails is repeated through the framework if that can do better: if the channel has
  // ended, if the framework knows why the device is away or how much memory an output needs, or if another device may
  // do it. `report` may be null. OUTPUT_INSUFFICIENT_SIZE if an output did not fit: the report then says what outputs
  // need.
  Status run(RunReport* report = nullptr, std::int64_t deadline_ns = kNoTime, const Patience& patience = {});

  // Has the next runs be for these dimensions of inputs, of which a 0 is an empty axis. The binding was made with
  // varies_inputs, and the dimensions that it has are the most that an input may have.
  void resize(std::vector<InputDimensions> inputs);

  std::int64_t handle() const { return handle_; }
  // Outputs whose dimensions the model leaves open and those of the inputs determine. If the memory that one was given
  // is too small for them, runs fail.
  const std::vector<OutputReport>& known_outputs() const { return known_; }
  // Whether there was a run channel that has ended: runs go through the framework until the model is bound again.
  bool has_lost_run_channel() const { return has_lost_run_channel_; }

 private:
  friend class Framework;
  Binding(std::int64_t handle, std::unique_ptr<Channel> channel, std::vector<BoundTensor> outputs)
      : handle_(handle), channel_(std::move(channel)), bound_outputs_(std::move(outputs)) {}
  // Adds the dimensions that resize() was given to a call which names inputs by their places in `names`.
  void add_lengths(Message& call, int field, const std::vector<std::string>& names) const;
  Status run_directly(RunReport* report, const Patience& patience);
  Status run_through_framework(RunReport* report, std::int64_t deadline_ns, const Status& lost_because,
                               const Patience& patience);
  // GENERAL_FAILURE if a report contradicts what is declared of an output, or has an output that its memory cannot hold.
  Status require_possible(const RunReport& report, const std::string& place) const;

  const std::int64_t handle_;
  const std::unique_ptr<Channel> channel_;
  const std::vector<BoundTensor> bound_outputs_;
  std::mutex mutex_;
  std::unique_ptr<Channel> run_channel_;  // none if the plan or a limit does not allow one
  std::int64_t execution_ = 0;
  bool may_fall_back_ = false;
  std::vector<std::string> outputs_;              // whose dimensions answers report, in their order
  std::vector<std::string> inputs_, run_inputs_;  // of the binding; of the run channel, if its calls give dimensions
  std::vector<InputDimensions> lengths_;
  std::vector<OutputReport> known_;  // outputs whose dimensions follow from the inputs'
  std::atomic<bool> has_lost_run_channel_{false};
};

// A run that was launched, to begin when fences have signalled.
struct LaunchedRun {
  std::int64_t handle = 0;
  std::optional<Fence> fence;  // that it will signal; none if it has ended already
};

// Operations that are tied to a device (docs/partitioning.md).
struct Pin {
  std::string match, device;
};

// Dimensions of a tensor of a TFLite file, by its index, which count instead of those in the file; -1 for one that only
// a run knows.
struct TensorDimensions {
  std::int32_t tensor = 0;
  std::vector<std::int32_t> dimensions;
};

// A file besides the model's own in which values of its tensors lie: ONNX's external data.
struct WeightsFile {
  std::string location;  // that the model's file has for it
  const Fd* file;        // used in place if it is sealed against writing and shrinking, else copied; outlives the call
};

struct LoadOptions {
  std::vector<std::string> devices;  // that may be used, in the order of preference; empty for all
  std::vector<Pin> pins;
  int partitioner = 0;  // a Partitioner of framework.proto
  int min_nodes_per_partition = 0;
  int fallback = 0;                    // a Fallback of framework.proto; 0 allows it
  int preference = 1, priority = 1;    // with the HAL's numbers
  std::string cache_token;             // 32 bytes under which compilations are cached; empty for none
  std::int64_t deadline_ns = kNoTime;  // by which it must have been prepared
  Hints hints{};
  bool is_relaxed = false;  // float32 may be computed as float16
  std::vector<InputDimensions> input_dimensions;
  std::vector<TensorDimensions> tensor_dimensions;
  std::vector<WeightsFile> weights;
};

// One use of memory that is allocated: an input or output of a loaded model.
struct MemoryRole {
  std::string model;
  bool is_output = false;
  std::int32_t index = 0;
  float probability = 1;
};

// Memory that a device may own. It is named by its handle.
struct AllocatedMemory {
  std::int64_t handle = 0;
  std::string device;  // empty for shared memory of the host
};

struct BindOptions {
  bool wants_run_channel = true;
  bool prepares_dimensions =
      false;                   // has a plan prepared for the inputs' dimensions first, if the model leaves some open
  bool measures = false;       // runs report the times of their steps
  bool varies_inputs = false;  // Binding::resize() says which dimensions open inputs have
  std::int64_t loop_timeout_ns = kNoTime;  // that one activation of WHILE may take; without it the HAL's default
  Hints hints{};
};

// Safe to use from several threads. Objects end with the session at the latest.
class Framework {
 public:
  // `directory` is the process's endpoint.
  static Result<std::unique_ptr<Framework>> open(const std::string& directory, const Link::Options& options = {});

  Link& link() { return *link_; }
  Rpc& rpc() { return rpc_; }

  Result<std::vector<DeviceInfo>> devices();
  // Loads a model of the HAL. Its inputs are then named input0, input1 and so on, its outputs output0 and so on.
  Result<LoadedModel> load(const std::string& name, const Model& model, const LoadOptions& options = {},
                           const Patience& patience = {});
  // Loads a file, ONNX or TFLite.
  Result<LoadedModel> load(const std::string& name, const Fd& file, const LoadOptions& options = {},
                           const Patience& patience = {});
  // Loads one group of a plan, by its position. INVALID_ARGUMENT if the plan is no longer kept.
  Result<LoadedModel> load(const std::string& name, const Plan& plan, std::size_t group, const Patience& patience = {});
  // Says what would run where if the client runs those nodes of a file that no device takes, the nodes `keeps`, and
  // those of other types than `operators`; empty for all. The framework keeps the plan for a while, to be loaded from.
  // Nothing is prepared, unless `load_as` names the model that a file may become at once which one device takes as it
  // is.
  Result<Plan> plan(const Fd& file, const LoadOptions& options = {}, const std::vector<std::int32_t>& keeps = {},
                    const std::vector<std::string>& operators = {}, const std::string& load_as = {},
                    const Patience& patience = {});
  Status release(const Plan& plan);
  Status unload(const std::string& name, const Patience& patience = {});
  // Says what is wrong with a model: INVALID_ARGUMENT, or nothing.
  Status check(const Model& model, Check what = Check::kRules);
  // Whether at least one of the devices can do each operation of main.
  Result<std::vector<bool>> supported_operations(const Model& model, const std::vector<std::string>& devices);
  // Ties all inputs and outputs of a model to memory: `pools` are what ashmem() and its like make.
  Result<std::unique_ptr<Binding>> bind(const std::string& model, const std::vector<BoundTensor>& inputs,
                                        const std::vector<BoundTensor>& outputs, const std::vector<Message>& pools,
                                        const BindOptions& options = {}, const Patience& patience = {});
  // Has the next run of a binding begin with the initial values of the model's state.
  Status reset_state(const Binding& binding);
  // Launches a run that begins when all the fences have signalled, and returns once its steps are launched.
  Result<LaunchedRun> launch(const Binding& binding, const std::vector<const Fence*>& wait_for = {},
                             std::int64_t deadline_ns = kNoTime, std::int64_t duration_ns = kNoTime);
  // Memory for certain inputs and outputs. Empty dimensions are those of the roles.
  Result<AllocatedMemory> allocate(const std::vector<MemoryRole>& roles,
                                   const std::vector<std::uint32_t>& dimensions = {});
  // Copies one whole memory to another: each end is what allocated() or ashmem() and its like make.
  Status copy(const Message& source, const Message& destination);
  Status free(const AllocatedMemory& memory);
  // How a launched run ended. GENERAL_FAILURE until it has.
  Status launched_run(std::int64_t launched, RunReport* report = nullptr);
  // Has a launched run end as soon as it can: its fence is then in error.
  Status cancel(std::int64_t launched);
  Status release(std::int64_t launched);

 private:
  explicit Framework(std::unique_ptr<Link> link) : link_(std::move(link)), rpc_(*link_) {}
  Result<LoadedModel> load(Message request, const std::string& name, const Patience& patience);
  // Makes a call with the fields of LoadModelRequest for a file, which is on the link for as long as that lasts.
  template <typename Call>
  auto with_file(const Fd& file, const LoadOptions& options, Call call) -> decltype(call(Message()));
  Status open_run_channel(std::string_view encoded, Binding& binding);

  std::unique_ptr<Link> link_;
  Rpc rpc_;
};

// Ends of a copy.
Message allocated(const AllocatedMemory& memory);
Message of_host(const Message& memory);

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_FRAMEWORK_H_
