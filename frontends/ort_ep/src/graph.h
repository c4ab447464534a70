// A graph of ONNX Runtime, read through its API.
#ifndef NNHAL_ORT_EP_GRAPH_H_
#define NNHAL_ORT_EP_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nnhal/client/session.h"
#include "onnxruntime.h"

namespace nnhal::ort_ep {

// What is known of a tensor's shape.
struct Shape {
  int type = 0;  // an element type of ONNX; ONNX Runtime has the same numbers
  bool is_known = false;
  std::vector<std::int64_t> dimensions;  // -1 for one that is open
  std::vector<std::string> names;        // of open ones; empty if an axis has none
};

std::string name_of(const OrtValueInfo* value);  // empty for an optional value that is left out
std::string operator_of(const OrtNode* node);
std::vector<const OrtNode*> nodes_of(const OrtGraph* graph);
std::vector<std::string> inputs_of(const OrtNode* node);
std::vector<std::string> outputs_of(const OrtNode* node);

// A model of these bytes, in memory that the framework reads. Throws Failure.
client::ModelFile file_of(const std::string& bytes);

// The graph as an ONNX model. Node i of it is node i of `nodes_of(graph)`. Constant initializers are written as such;
// those that a caller may override are inputs. What ONNX cannot say of a node through this API, such as a sparse
// constant, gives the node a domain that nobody knows, so that no device takes it. Values of large constants are in the
// files that have them, and otherwise in memory that the framework and devices use in place.
client::ModelFile make_model(const OrtGraph* graph);

// The same in one piece.
std::string encode_model(const OrtGraph* graph);

// The contents of a tensor or string attribute of a node; empty without it.
std::string string_attribute(const OrtNode* node, const std::string& name);

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_GRAPH_H_
