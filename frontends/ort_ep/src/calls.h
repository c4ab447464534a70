// Calls of ONNX Runtime, and what it calls: its statuses are exceptions on this side.
//
// Nothing of this throws across the border: each function that ONNX Runtime calls is guarded(), and the core of the SDK
// throws nothing.
#ifndef NNHAL_ORT_EP_CALLS_H_
#define NNHAL_ORT_EP_CALLS_H_

#include <string>
#include <vector>

#include "nnhal/failure.h"
#include "onnxruntime.h"

namespace nnhal::ort_ep {

// The functions of ONNX Runtime. They are there from registration on.
const Api& ort();

// Whether a node that is made of others gets values of theirs that only graphs inside them read: from 1.27 on.
bool gives_outer_values();

// Fills them in. Returns an error in words if this ONNX Runtime is too old, else nothing.
std::string use(const OrtApiBase* base);

using nnhal::check;
using nnhal::Failure;
using nnhal::take;

// Throws if a call of ONNX Runtime has failed.
void check(OrtStatus* status);

// What a function of ONNX Runtime writes to its last argument.
template <typename T, typename Function, typename... Arguments>
T read(Function function, Arguments... arguments) {
  T value{};
  check(function(arguments..., &value));
  return value;
}

// A list, of which ONNX Runtime says the length and then the elements.
template <typename T, typename Count, typename Fill, typename Of>
std::vector<T> list(Count count, Fill fill, Of of) {
  std::vector<T> elements(read<std::size_t>(count, of));
  if (!elements.empty()) check(fill(of, elements.data(), elements.size()));
  return elements;
}

OrtStatus* failed(const char* text);

// Runs what ONNX Runtime has called. An exception becomes a status.
template <typename Work>
OrtStatus* guarded(Work work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

void log(const OrtLogger* logger, Severity severity, const std::string& text);

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_CALLS_H_
