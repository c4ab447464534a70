#include "context.h"

#include <vector>

#include "calls.h"
#include "graph.h"
#include "options.h"

namespace nnhal::ort_ep {

bool is_context(const OrtNode* node) {
  return operator_of(node) == "EPContext" && string_attribute(node, "source") == kProviderName;
}

std::string model_of_context(const OrtNode* node) { return string_attribute(node, "ep_cache_context"); }

OrtNode* make_context(const OrtNode* fused, const std::string& model) {
  if (!ort().CreateNode) throw Failure("this ONNX Runtime cannot make nodes");
  std::vector<OrtOpAttr*> attributes;
  const auto add = [&](const char* name, const void* data, std::size_t length, AttributeType type) {
    attributes.push_back(
        read<OrtOpAttr*>(ort().CreateOpAttr, name, data, static_cast<int>(length), static_cast<int>(type)));
  };
  const std::int64_t one = 1;
  const std::string provider = kProviderName;
  add("main_context", &one, 1, kInt);
  add("embed_mode", &one, 1, kInt);
  add("ep_cache_context", model.data(), model.size(), kString);
  add("source", provider.data(), provider.size(), kString);
  const std::vector<std::string> inputs = inputs_of(fused), outputs = outputs_of(fused);
  std::vector<const char*> input_names, output_names;
  for (const std::string& name : inputs) input_names.push_back(name.c_str());
  for (const std::string& name : outputs) output_names.push_back(name.c_str());
  OrtNode* node = nullptr;
  OrtStatus* const status = ort().CreateNode("EPContext", "com.microsoft", read<const char*>(ort().Node_GetName, fused),
                                             input_names.data(), input_names.size(), output_names.data(),
                                             output_names.size(), attributes.data(), attributes.size(), &node);
  for (OrtOpAttr* const attribute : attributes) ort().ReleaseOpAttr(attribute);
  check(status);
  return node;
}

}  // namespace nnhal::ort_ep
