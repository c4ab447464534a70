// The delegate: says which nodes of a graph nnhal takes, and makes kernels of them.
#ifndef NNHAL_TFLITE_DELEGATE_H_
#define NNHAL_TFLITE_DELEGATE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph.h"
#include "nnhal/client/session.h"
#include "nnhal/failure.h"
#include "tensorflow_lite.h"

namespace nnhal::tflite {

// What a program says of nnhal.
struct Options {
  std::string directory = client::default_directory();  // of the framework
  std::string model;                                    // the path of the model's file; empty to find it in memory
  client::LoadOptions load;
  std::vector<std::string> operators;  // those that nnhal may take, by their names in the schema; empty for all

  // Those of NNHAL_TFLITE_OPTIONS, such as "devices=cpu_acc partitioner=nnapi", for programs that give none. Throws
  // Failure.
  static Options of_environment();
  // Throws Failure if there is none of that name, or if it cannot have the value.
  void set(const std::string& name, const std::string& value);
};

// A graph that the framework has planned for certain dimensions, and plans anew for others. Its kernels share it.
class PlannedGraph {
 public:
  // Throws Failure if the framework cannot be asked, or refuses.
  PlannedGraph(const Options& options, const ModelBytes& model, Graph graph, const Context& context);

  client::Session& session() const { return *session_; }
  const Graph& graph() const { return graph_; }
  // The plan for the dimensions that the inputs of the graph have now.
  std::shared_ptr<client::PlannedModel> plan(const Context& context);
  // A plan for the dimensions that all tensors have now, but those that only a run knows.
  std::shared_ptr<client::PlannedModel> plan_again(const Context& context);
  // A plan of no nodes but these, for a part that the framework would not make of the whole graph.
  std::shared_ptr<client::PlannedModel> plan_part(const Context& context, const std::vector<std::int32_t>& nodes) const;
  // Whether a tensor's dimensions are known before a run, by tensor: those of a dynamic one, and of what is computed of
  // it, are not.
  std::vector<bool> known_tensors(const Context& context) const;

 private:
  using Dimensions = std::vector<std::vector<int>>;

  std::shared_ptr<client::PlannedModel> make(std::vector<client::TensorDimensions> tensors,
                                             std::vector<std::int32_t> keeps) const;
  std::vector<client::TensorDimensions> all_dimensions(const Context& context) const;
  Dimensions input_dimensions(const Context& context) const;

  const Options options_;
  const std::shared_ptr<client::Session> session_;
  const Graph graph_;
  const Fd file_;
  std::vector<int> inputs_;  // tensors that some node reads, and none writes
  Dimensions planned_for_;
  std::shared_ptr<client::PlannedModel> plan_;
};

// The structure that TensorFlow Lite knows, with what it needs.
struct OwnDelegate : Delegate {
  // Throws Failure if no framework answers.
  explicit OwnDelegate(Options given);

  const Options options;
  const std::shared_ptr<client::Session> session;
  std::mutex preparing;
  std::string_view last_model;  // where it was found in memory
};

// The graph whose nodes this thread has replaced at the moment.
std::shared_ptr<PlannedGraph> replaced_graph();

// Writes to standard error if the environment variable NNHAL_TFLITE_LOG is set.
void log(const std::string& text);

// Runs what TensorFlow Lite has called. An exception becomes an error of its own, in words.
template <typename Work>
int guarded(Context* context, Work work) noexcept {
  try {
    work();
    return kOk;
  } catch (const std::exception& error) {
    context->report_error(context, "nnhal: %s", error.what());
    return kError;
  }
}

}  // namespace nnhal::tflite

#endif  // NNHAL_TFLITE_DELEGATE_H_
