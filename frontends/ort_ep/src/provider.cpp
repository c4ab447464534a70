#include "provider.h"

#include <algorithm>

#include "calls.h"
#include "context.h"
#include "graph.h"

namespace nnhal::ort_ep {
namespace {

// Fuses nodes into one. Constants that they read are part of the model that the framework has, unless it was compiled
// with them as inputs, whose defaults ONNX Runtime writes as constants.
void fuse(OrtEpGraphSupportInfo* info, const std::vector<const OrtNode*>& nodes, bool has_constants = true) {
  const OrtNodeFusionOptions options{kApiVersion, /*drop_constant_initializers=*/has_constants};
  check(ort().EpGraphSupportInfo_AddNodesToFuse(info, nodes.data(), nodes.size(), &options));
}

std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

}  // namespace

Provider::Provider(Options options, std::shared_ptr<Arena> arena, const OrtLogger* logger, std::string failure)
    : OrtEp{},
      options_(std::move(options)),
      arena_(std::move(arena)),
      logger_(logger),
      session_(client::Session::of(options_.directory, kClientName)),
      failure_(std::move(failure)) {
  ort_version_supported = kApiVersion;
  GetName = [](const OrtEp*) { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
    return guarded([&] { static_cast<Provider*>(self)->get_capability(graph, info); });
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
               OrtNodeComputeInfo** kernels, OrtNode** contexts) {
    return guarded([&] { static_cast<Provider*>(self)->compile(graphs, fused, count, kernels, contexts); });
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** kernels, std::size_t count) {
    for (std::size_t index = 0; index < count; ++index) delete static_cast<Kernel*>(kernels[index]);
  };
}

void Provider::get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
  const std::vector<const OrtNode*> nodes = nodes_of(graph);
  // A node with graphs of its own is taken as a whole, or left with all that is in them.
  if (nodes.empty() || read<const OrtNode*>(ort().Graph_GetParentNode, graph)) return;
  std::vector<const OrtNode*> compiled;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(compiled), is_context);
  for (const OrtNode* const node : compiled) fuse(info, {node}, /*has_constants=*/false);
  if (!compiled.empty()) return;
  if (failure_.empty()) {
    try {
      return plan(graph, nodes, info);
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }
  fuse(info, nodes);  // so that Compile is called, which says why not
}

void Provider::plan(const OrtGraph* graph, const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* info) {
  sources_.clear();
  planned_ = take(client::PlannedModel::make(take(session_->framework()), make_model(graph), options_.load, {}, {},
                                             /*may_load=*/true));
  for (const client::PlannedGroup& group : planned_->plan().groups) {
    const auto source = std::make_shared<client::PlannedSource>(planned_, group.nodes);
    std::vector<const OrtNode*> members;
    for (const std::int32_t node : group.nodes) {
      members.push_back(nodes.at(static_cast<std::size_t>(node)));
      for (const std::string& name : outputs_of(members.back())) sources_.emplace(name, source);
    }
    fuse(info, members);
    log(logger_, kInfo,
        "takes " + std::to_string(members.size()) + " of " + std::to_string(nodes.size()) + " nodes, on " +
            join(group.step_devices));
  }
  for (const client::LeftNode& left : planned_->plan().left)
    log(logger_, kInfo,
        "leaves node " + std::to_string(left.node) + ", " + left.operator_type + " '" + left.name +
            "': " + left.reason);
}

void Provider::compile(const OrtGraph** graphs, const OrtNode** fused, std::size_t count, OrtNodeComputeInfo** kernels,
                       OrtNode** contexts) {
  if (!failure_.empty()) throw Failure(failure_);
  std::vector<std::unique_ptr<Kernel>> made;
  for (std::size_t index = 0; index < count; ++index) {
    made.push_back(std::make_unique<Kernel>(session_, source_of(graphs[index]), *arena_, inputs_of(fused[index]),
                                            outputs_of(fused[index])));
    if (options_.makes_contexts && contexts) contexts[index] = make_context(fused[index], encode_model(graphs[index]));
  }
  for (std::size_t index = 0; index < count; ++index) kernels[index] = made[index].release();
}

std::shared_ptr<client::Source> Provider::source_of(const OrtGraph* graph) {
  const std::vector<const OrtNode*> nodes = nodes_of(graph);
  if (nodes.size() == 1 && is_context(nodes[0]))
    return std::make_shared<client::FileSource>(file_of(model_of_context(nodes[0])), options_.load);
  for (const OrtNode* const node : nodes)
    for (const std::string& name : outputs_of(node))
      if (const auto found = sources_.find(name); !name.empty() && found != sources_.end()) return found->second;
  throw Failure("ONNX Runtime compiles nodes that nnhal has not taken");
}

}  // namespace nnhal::ort_ep
