#include "calls.h"

#include <cstdio>

namespace nnhal::ort_ep {
namespace {

bool has_outer_values = false;

Api& table() {
  static Api functions;
  return functions;
}

}  // namespace

const Api& ort() {
  static const Api& functions = table();
  return functions;
}

bool gives_outer_values() { return has_outer_values; }

std::string use(const OrtApiBase* base) {
  const std::string version = base->GetVersionString();
  // To ask an older one for this version would have it write to stderr, too.
  int major = 0, minor = 0;
  const bool is_known = std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2;
  has_outer_values = !is_known || major > 1 || minor >= 27;
  const bool is_old = is_known && major == 1 && minor < static_cast<int>(kApiVersion);
  const void* const* const functions = base->GetApi(is_old ? 1 : kApiVersion);
  Api& api = table();
  if (is_old || !functions) {
    const void* const* const oldest = base->GetApi(1);
    api.CreateStatus = reinterpret_cast<decltype(api.CreateStatus)>(const_cast<void*>(oldest[0]));
    return "ONNX Runtime 1.24 or later is needed, and this is " + version;
  }
#define NNHAL_FILL(place, returns, name, arguments) \
  api.name = reinterpret_cast<decltype(api.name)>(const_cast<void*>(functions[place]));
  NNHAL_ORT_API(NNHAL_FILL)
#undef NNHAL_FILL
  const void* const* const providers = api.GetEpApi();
  const void* const* const editor = api.GetModelEditorApi();
#define NNHAL_FILL(place, returns, name, arguments) \
  api.name = reinterpret_cast<decltype(api.name)>(const_cast<void*>(providers[place]));
  NNHAL_ORT_EP_API(NNHAL_FILL)
#undef NNHAL_FILL
#define NNHAL_FILL(place, returns, name, arguments) \
  if (editor) api.name = reinterpret_cast<decltype(api.name)>(const_cast<void*>(editor[place]));
  NNHAL_ORT_EDITOR_API(NNHAL_FILL)
#undef NNHAL_FILL
  return {};
}

void check(OrtStatus* status) {
  if (!status) return;
  const std::string text = ort().GetErrorMessage(status);
  ort().ReleaseStatus(status);
  throw Failure(text);
}

OrtStatus* failed(const char* text) { return ort().CreateStatus(kFail, ("nnhal: " + std::string(text)).c_str()); }

void log(const OrtLogger* logger, Severity severity, const std::string& text) {
  if (!logger) return;
  OrtStatus* const status =
      ort().Logger_LogMessage(logger, severity, ("nnhal: " + text).c_str(), "nnhal_ort", 0, "nnhal");
  if (status) ort().ReleaseStatus(status);
}

}  // namespace nnhal::ort_ep
