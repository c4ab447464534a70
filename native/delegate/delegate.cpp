#include "delegate.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernel.h"
#include "nnhal/client/load_options.h"

namespace nnhal::tflite {
namespace {

constexpr const char* kClientName = "TensorFlow Lite";
constexpr std::string_view kTransposedConvolution = "Convolution2DTransposeBias";  // of MediaPipe and XNNPACK
constexpr std::int32_t kCustom = 32;

thread_local std::shared_ptr<PlannedGraph> in_replacement;

std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

std::vector<int> dimensions_of(const Tensor& tensor) {
  return tensor.dimensions ? std::vector<int>(tensor.dimensions->begin(), tensor.dimensions->end())
                           : std::vector<int>();
}

bool is_constant(const Tensor& tensor) { return tensor.allocation == kMapped; }

// Gives the output of a transposed convolution its dimensions. Its options are padding, 1 for SAME, and the strides along
// width and height.
void shape_transposed(Context* context, const Node& node) {
  int options[3];
  if (node.inputs->size < 2 || node.outputs->size != 1 || !node.custom_data ||
      node.custom_size < static_cast<int>(sizeof options))
    throw Failure(std::string(kTransposedConvolution) + " has no options, or other tensors than it should");
  std::memcpy(options, node.custom_data, sizeof options);
  const std::vector<int> images = dimensions_of(context->tensors[node.inputs->begin()[0]]);
  const std::vector<int> filter = dimensions_of(context->tensors[node.inputs->begin()[1]]);
  if (images.size() != 4 || filter.size() != 4)
    throw Failure(std::string(kTransposedConvolution) + " has images or a filter of another rank than 4");
  const auto extent = [&](std::size_t axis, int stride) {  // SAME keeps as many windows as there are pixels
    if (stride < 1) throw Failure(std::string(kTransposedConvolution) + " has a stride below 1");
    const int around = options[0] == 1 ? std::max(0, filter[axis] - (images[axis] - 1) % stride - 1) : 0;
    return (images[axis] - 1) * stride + filter[axis] - around;
  };
  Kernel::resize(context, context->tensors[*node.outputs->begin()],
                 {images[0], extent(1, options[2]), extent(2, options[1]), filter[0]});
}

// TensorFlow Lite prepares the nodes of the file too, to learn dimensions, and an interpreter may know a custom operator
// by its name alone. Its nodes that nnhal takes get what prepares them.
void make_preparable(Context* context, const std::vector<std::int32_t>& nodes) {
  for (const std::int32_t index : nodes) {
    Node* node = nullptr;
    Registration* registration = nullptr;
    if (context->get_node(context, index, &node, &registration) != kOk || registration->prepare ||
        registration->builtin_code != kCustom || !registration->custom_name ||
        registration->custom_name != kTransposedConvolution)
      continue;
    registration->prepare = [](Context* self, Node* given) {
      return guarded(self, [&] { shape_transposed(self, *given); });
    };
  }
}

void log_plan(const client::Plan& plan, std::size_t count) {
  std::size_t taken = 0;
  std::vector<std::string> devices;
  for (const client::PlannedGroup& group : plan.groups) {
    taken += group.nodes.size();
    devices.insert(devices.end(), group.step_devices.begin(), group.step_devices.end());
  }
  log("takes " + std::to_string(taken) + " of " + std::to_string(count) + " nodes in " +
      std::to_string(plan.groups.size()) + " parts, on " + join(devices));
  for (const client::LeftNode& left : plan.left)
    log("leaves node " + std::to_string(left.node) + ", " + left.operator_type + ": " + left.reason);
}

void prepare(Context* context, OwnDelegate& delegate) {
  const std::lock_guard<std::mutex> lock(delegate.preparing);
  MemoryMap memory;
  Graph graph = Graph::read(context, memory);
  if (graph.operators.empty()) return;
  const ModelBytes model = ModelBytes::find(*context, memory, delegate.options.model, delegate.last_model);
  // The framework plans the file's first graph. Others are those of control flow, or of signatures of their own.
  if (const std::size_t number = model.graph_of(*context, graph); number != 0)
    return log("leaves graph " + std::to_string(number) + " of the file");
  const auto planned = std::make_shared<PlannedGraph>(delegate.options, model, std::move(graph), *context);
  const std::shared_ptr<client::PlannedModel> plan = planned->plan(*context);
  log_plan(plan->plan(), planned->graph().operators.size());
  std::vector<int> nodes{0};  // with their number before them, as TensorFlow Lite has it
  for (const client::PlannedGroup& group : plan->plan().groups) {
    nodes.insert(nodes.end(), group.nodes.begin(), group.nodes.end());
    make_preparable(context, group.nodes);
  }
  std::sort(nodes.begin() + 1, nodes.end());
  nodes[0] = static_cast<int>(nodes.size()) - 1;
  if (nodes[0] == 0) return;
  in_replacement = planned;
  const int outcome =
      context->replace_nodes(context, registration(), reinterpret_cast<const Ints*>(nodes.data()), &delegate);
  in_replacement.reset();
  if (outcome != kOk) throw Failure("TensorFlow Lite has not replaced the nodes");
}

}  // namespace

Options Options::of_environment() {
  Options options;
  const char* const given = std::getenv("NNHAL_TFLITE_OPTIONS");
  for (const std::string& option : client::split(given ? given : "", ' ')) {
    const std::size_t at = option.find('=');
    if (at == std::string::npos) throw Failure("NNHAL_TFLITE_OPTIONS has '" + option + "', expected NAME=VALUE");
    options.set(option.substr(0, at), option.substr(at + 1));
  }
  return options;
}

void Options::set(const std::string& name, const std::string& value) {
  if (name == "framework")
    directory = value;
  else if (name == "model")
    model = value;
  else if (name == "ops")
    operators = client::split(value, ',');
  else
    check(client::set(load, name, value, "framework, model, ops"));
}

PlannedGraph::PlannedGraph(const Options& options, const ModelBytes& model, Graph graph, const Context& context)
    : options_(options),
      session_(client::Session::of(options.directory, kClientName)),
      graph_(std::move(graph)),
      file_(::fcntl(model.file().get(), F_DUPFD_CLOEXEC, 0)) {
  if (!file_) check(Status::of_errno("the model's file", errno));
  std::vector<bool> is_read(context.tensor_count), is_written(context.tensor_count);
  for (const Operator& one : graph_.operators) {
    for (const int tensor : one.inputs)
      if (tensor >= 0) is_read[static_cast<std::size_t>(tensor)] = true;
    for (const int tensor : one.outputs) is_written[static_cast<std::size_t>(tensor)] = true;
  }
  for (std::size_t tensor = 0; tensor < context.tensor_count; ++tensor)
    if (is_read[tensor] && !is_written[tensor] && !is_constant(context.tensors[tensor]))
      inputs_.push_back(static_cast<int>(tensor));
}

std::shared_ptr<client::PlannedModel> PlannedGraph::plan(const Context& context) {
  Dimensions dimensions = input_dimensions(context);
  if (plan_ && dimensions == planned_for_) return plan_;
  // Before the first preparation others have those of the file.
  if (plan_) return plan_again(context);
  std::vector<client::TensorDimensions> tensors;
  for (const int input : inputs_) tensors.push_back({input, dimensions_of(context.tensors[input])});
  plan_ = make(std::move(tensors), graph_.taken);
  planned_for_ = std::move(dimensions);
  return plan_;
}

std::shared_ptr<client::PlannedModel> PlannedGraph::plan_again(const Context& context) {
  plan_ = make(all_dimensions(context), graph_.taken);
  planned_for_ = input_dimensions(context);
  return plan_;
}

std::shared_ptr<client::PlannedModel> PlannedGraph::plan_part(const Context& context,
                                                              const std::vector<std::int32_t>& nodes) const {
  std::vector<std::int32_t> others;
  for (std::size_t index = 0; index < graph_.operators.size(); ++index)
    if (!std::binary_search(nodes.begin(), nodes.end(), index)) others.push_back(static_cast<std::int32_t>(index));
  return make(all_dimensions(context), std::move(others));
}

std::vector<client::TensorDimensions> PlannedGraph::all_dimensions(const Context& context) const {
  const std::vector<bool> is_known = known_tensors(context);
  std::vector<client::TensorDimensions> tensors;
  const auto add = [&](int index) {
    const Tensor& tensor = context.tensors[index];
    if (is_constant(tensor)) return;
    std::vector<int> dimensions = dimensions_of(tensor);
    if (!is_known[static_cast<std::size_t>(index)]) std::fill(dimensions.begin(), dimensions.end(), -1);
    tensors.push_back({index, std::move(dimensions)});
  };
  for (const int input : inputs_) add(input);
  for (const Operator& one : graph_.operators)
    for (const int output : one.outputs) add(output);
  return tensors;
}

std::vector<bool> PlannedGraph::known_tensors(const Context& context) const {
  std::vector<bool> is_known(context.tensor_count);
  for (std::size_t tensor = 0; tensor < context.tensor_count; ++tensor)
    is_known[tensor] = context.tensors[tensor].allocation != kDynamic;
  for (const Operator& one : graph_.operators) {
    const bool follows = std::all_of(one.inputs.begin(), one.inputs.end(),
                                     [&](int input) { return input < 0 || is_known[static_cast<std::size_t>(input)]; });
    for (const int output : one.outputs)
      if (!follows) is_known[static_cast<std::size_t>(output)] = false;
  }
  return is_known;
}

std::shared_ptr<client::PlannedModel> PlannedGraph::make(std::vector<client::TensorDimensions> tensors,
                                                         std::vector<std::int32_t> keeps) const {
  client::ModelFile model;
  model.name = "tflite";
  model.file = Fd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!model.file) check(Status::of_errno("the model's file", errno));
  client::LoadOptions options = options_.load;
  options.tensor_dimensions = std::move(tensors);
  return take(client::PlannedModel::make(take(session_->framework()), std::move(model), std::move(options),
                                         std::move(keeps), options_.operators));
}

PlannedGraph::Dimensions PlannedGraph::input_dimensions(const Context& context) const {
  Dimensions all;
  for (const int input : inputs_) all.push_back(dimensions_of(context.tensors[input]));
  return all;
}

OwnDelegate::OwnDelegate(Options given)
    : Delegate{}, options(std::move(given)), session(client::Session::of(options.directory, kClientName)) {
  data = this;
  flags = kAllowsDynamicTensors | kRequiresPropagatedShapes;
  prepare = [](Context* context, Delegate* self) {
    return guarded(context, [&] { tflite::prepare(context, *static_cast<OwnDelegate*>(self)); });
  };
  (void)take(session->framework());
}

std::shared_ptr<PlannedGraph> replaced_graph() { return in_replacement; }

void log(const std::string& text) {
  static const bool is_wanted = std::getenv("NNHAL_TFLITE_LOG") != nullptr;
  if (is_wanted) std::fprintf(stderr, "nnhal: %s\n", text.c_str());
}

}  // namespace nnhal::tflite
