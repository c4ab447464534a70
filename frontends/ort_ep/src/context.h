// Models that are compiled already (docs/doors.md#onnx-runtime): nodes EPContext, which ONNX Runtime writes to a file.
#ifndef NNHAL_ORT_EP_CONTEXT_H_
#define NNHAL_ORT_EP_CONTEXT_H_

#include <string>

#include "onnxruntime.h"

namespace nnhal::ort_ep {

// Whether it is one that this provider has made.
bool is_context(const OrtNode* node);

// The part of a model that it stands for, as ONNX. The framework has what the devices have compiled in its own cache.
std::string model_of_context(const OrtNode* node);

// One that stands for a node. ONNX Runtime owns it.
OrtNode* make_context(const OrtNode* fused, const std::string& model);

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_CONTEXT_H_
