// A part of a model that ONNX Runtime has given to nnhal: loaded in the framework, and bound to memory for each run.
#ifndef NNHAL_ORT_EP_KERNEL_H_
#define NNHAL_ORT_EP_KERNEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arena.h"
#include "nnhal/client/elements.h"
#include "nnhal/client/session.h"
#include "onnxruntime.h"

namespace nnhal::ort_ep {

// An input or output of the loaded model.
struct Tensor {
  std::string name;
  int place = -1;  // among the inputs or outputs of ONNX Runtime's node; -1 for an output that nobody there reads
  client::Element element = client::Element::kNone, stored = client::Element::kNone;
  bool is_scalar = false;
  std::vector<std::int64_t> dimensions;  // 0 for an axis of unknown size; [1] for a scalar
  bool is_open = false;                  // whether one is unknown
};

// A binding, and the memory that it is tied to.
struct Slot {
  std::shared_ptr<client::OwnedModel> model;
  std::vector<std::int64_t> key;             // where each tensor lies in the arena, or -1 if it is copied
  SharedMemory memory;                       // of what is copied
  std::vector<std::size_t> places, rooms;    // of inputs, then outputs: where they lie in it, and how long they may be
  std::unique_ptr<client::Binding> binding;  // goes before the memory
  std::int64_t bound_ns = 0;
};

// What is known for certain dimensions of the inputs.
struct Variant {
  std::vector<std::vector<std::int64_t>> inputs;
  std::vector<std::optional<std::vector<std::int64_t>>> outputs;  // of open ones, if they follow from the inputs'
  std::vector<std::size_t> rooms;                                 // bytes for inputs, then outputs
  std::vector<std::unique_ptr<Slot>> idle;                        // the one that was used last is the last
};

// Runs in several threads at once. A run finds a binding that is idle, or makes one.
class Kernel : public OrtNodeComputeInfo {
 public:
  // `inputs` and `outputs` are the names that ONNX Runtime's node has. Loads the model. Throws Failure.
  Kernel(std::shared_ptr<client::Session> session, std::shared_ptr<client::Source> source, const Arena& arena,
         const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

 private:
  struct Run;

  void compute(OrtKernelContext* context);
  // The loaded model: loaded again if the framework has lost it, or if this is a fork of the process that has it.
  std::shared_ptr<client::OwnedModel> model();
  // Forgets a model if its framework has gone. Returns whether it has.
  bool has_gone(const std::shared_ptr<client::OwnedModel>& model);
  void read_inputs(Run& run);
  std::shared_ptr<Variant> variant_of(const std::vector<std::vector<std::int64_t>>& dimensions);
  // Has ONNX Runtime allocate the outputs whose dimensions are known, and notes what lies in the arena.
  void place(Run& run);
  std::unique_ptr<Slot> take_slot(const Run& run);
  void give_slot(const Run& run, std::unique_ptr<Slot> slot, bool is_direct);
  std::unique_ptr<Slot> bind(const Run& run, std::shared_ptr<client::OwnedModel> model);
  // Notes which dimensions outputs have. Returns whether a slot has room for them.
  bool learn(Variant& variant, const std::vector<client::OutputReport>& reports, bool follow_from_inputs,
             const Slot& slot);
  void write_outputs(Run& run, const Slot& slot, const std::vector<client::OutputReport>& reports);

  const std::shared_ptr<client::Session> session_;
  const std::shared_ptr<client::Source> source_;
  const Arena& arena_;  // outlives it
  std::vector<Tensor> inputs_, outputs_;
  std::mutex loading_;  // held while the model is loaded
  std::mutex mutex_;    // of what follows
  std::shared_ptr<client::OwnedModel> model_;
  std::map<std::vector<std::vector<std::int64_t>>, std::shared_ptr<Variant>> variants_;
  bool had_direct_runs_ = false;
};

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_KERNEL_H_
