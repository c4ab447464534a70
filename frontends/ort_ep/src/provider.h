// The provider of one session of ONNX Runtime: says which nodes nnhal takes, and makes kernels of them.
#ifndef NNHAL_ORT_EP_PROVIDER_H_
#define NNHAL_ORT_EP_PROVIDER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arena.h"
#include "kernel.h"
#include "nnhal/client/session.h"
#include "onnxruntime.h"
#include "options.h"

namespace nnhal::ort_ep {

class Provider : public OrtEp {
 public:
  // `failure` is what Compile says, if it is known already that it must fail. It alone does: if CreateEp or
  // GetCapability did, ONNX Runtime would write or log that, and run the model on the CPU.
  Provider(Options options, std::shared_ptr<Arena> arena, const OrtLogger* logger, std::string failure);

 private:
  void get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* info);
  void plan(const OrtGraph* graph, const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* info);
  void compile(const OrtGraph** graphs, const OrtNode** fused, std::size_t count, OrtNodeComputeInfo** kernels,
               OrtNode** contexts);
  std::shared_ptr<client::Source> source_of(const OrtGraph* graph);

  const Options options_;
  const std::shared_ptr<Arena> arena_;
  const OrtLogger* const logger_;
  const std::shared_ptr<client::Session> session_;
  std::string failure_;
  std::map<std::string, std::shared_ptr<client::Source>> sources_;  // of the group that writes a value
  std::shared_ptr<client::PlannedModel> planned_;
};

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_PROVIDER_H_
