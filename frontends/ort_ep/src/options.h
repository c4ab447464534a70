// What a session of ONNX Runtime is told about nnhal.
#ifndef NNHAL_ORT_EP_OPTIONS_H_
#define NNHAL_ORT_EP_OPTIONS_H_

#include <string>

#include "nnhal/client/framework.h"
#include "onnxruntime.h"

namespace nnhal::ort_ep {

constexpr const char* kProviderName = "NnhalExecutionProvider";
constexpr const char* kClientName = "ONNX Runtime";  // of its sessions with the framework

struct Options {
  std::string directory;  // of the framework
  client::LoadOptions load;
  bool makes_contexts = false;  // whether ONNX Runtime asks for EPContext nodes
};

// Reads those of a session. Throws Failure if one is unknown, or has a value that it cannot have.
Options read_options(const OrtSessionOptions* session);

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_OPTIONS_H_
