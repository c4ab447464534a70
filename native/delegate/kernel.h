// A part of a graph that nnhal runs: loaded in the framework, and bound to memory.
#ifndef NNHAL_TFLITE_KERNEL_H_
#define NNHAL_TFLITE_KERNEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "delegate.h"
#include "nnhal/client/elements.h"

namespace nnhal::tflite {

// The functions of the nodes that replace parts of a graph.
Registration registration();

// Belongs to one node of one interpreter, which calls it from one thread at a time.
class Kernel {
 public:
  Kernel(std::shared_ptr<PlannedGraph> graph, const Subset& subset);

  // Loads the part, for the dimensions that its inputs have now, and gives outputs their dimensions. Throws Failure.
  void prepare(Context* context);
  // Throws Failure.
  void invoke(Context* context);
  // Gives a tensor other dimensions.
  static void resize(Context* context, Tensor& tensor, const std::vector<std::int64_t>& dimensions);

 private:
  using Dimensions = std::vector<std::int64_t>;

  // An input or output of the loaded model.
  struct Border {
    std::string name;
    int tensor = -1;
    client::Element element = client::Element::kNone, stored = client::Element::kNone;
    bool is_scalar = false;
    Dimensions dimensions;  // 0 for one that is open; [1] for a scalar
    bool is_open = false;   // whether one is
  };

  // A binding, and the memory that it is tied to.
  struct Slot {
    std::vector<Dimensions> inputs;                  // that are open
    std::vector<std::optional<Dimensions>> outputs;  // that follow from these; or what the last run has said
    SharedMemory memory;
    std::vector<std::size_t> places, rooms;  // of inputs, then outputs: where they lie in it, and how long they may be
    std::unique_ptr<client::Binding> binding;  // goes before the memory
    std::int64_t bound_ns = 0;
    bool has_run = false;
  };

  // Loads the part of a plan, or a plan of its own. Throws Failure.
  void load(std::shared_ptr<client::PlannedModel> plan, const Context& context);
  static std::vector<Border> borders_of(const std::vector<client::TensorInfo>& tensors);
  bool are_inputs_known(const std::vector<bool>& is_known) const;
  // An input that has other dimensions than the loaded model takes; null if none has. Unknown ones fit.
  const Border* misfit(const Context& context, const std::vector<bool>& is_known) const;
  // Loads the part anew if an input does not fit.
  void require_fitting(const Context& context, const std::vector<bool>& is_known);
  // The binding for the dimensions that inputs have now; the last one of slots_.
  Slot& slot_for(const Context& context);
  // Binds it anew, with memory that has room for all that is known of outputs.
  void bind(Slot& slot);
  // Notes which dimensions outputs have. Returns whether the slot has room for them.
  bool learn(Slot& slot, const std::vector<client::OutputReport>& reports);
  void read_inputs(const Context& context, const Slot& slot) const;
  void write_outputs(Context* context, const Slot& slot) const;
  // Has the state of the model begin anew if TensorFlow Lite has reset its variables since the last run.
  void follow_resets(const Context& context, const Slot& slot) const;
  // Drops the slot that was used last if another binding may do better.
  void keep_or_drop(const Slot& slot, bool is_direct);
  // Forgets a model whose framework has gone, or which is that of the process that this one was forked off. Returns
  // whether it has.
  bool drop_what_is_gone();
  void drop();

  const std::shared_ptr<PlannedGraph> graph_;
  const std::vector<std::int32_t> nodes_;
  const std::vector<int> given_, wanted_;  // tensors that TensorFlow Lite says the node reads and writes
  std::vector<int> variables_;             // tensors of nodes of the part
  std::shared_ptr<client::PlannedModel> plan_;
  std::unique_ptr<client::OwnedModel> model_;
  std::vector<Border> inputs_, outputs_;
  std::vector<Slot> slots_;  // the one that was used last is the last
  bool had_direct_runs_ = false;
};

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_KERNEL_H_
