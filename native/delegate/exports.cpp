// What programs find in the library: the plug-in of TensorFlow Lite's external delegates.
#include <string>

#include "delegate.h"

using namespace nnhal::tflite;

#define NNHAL_EXPORTED extern "C" __attribute__((visibility("default")))

NNHAL_EXPORTED Delegate* tflite_plugin_create_delegate(const char* const* names, const char* const* values,
                                                       std::size_t count, void (*report_error)(const char*)) {
  try {
    Options options = Options::of_environment();
    for (std::size_t index = 0; index < count; ++index) options.set(names[index], values[index]);
    return new OwnDelegate(std::move(options));
  } catch (const std::exception& error) {
    if (report_error) report_error(("nnhal: " + std::string(error.what())).c_str());
    return nullptr;
  }
}

NNHAL_EXPORTED void tflite_plugin_destroy_delegate(Delegate* delegate) { delete static_cast<OwnDelegate*>(delegate); }
