// An accelerator of LiteRT's CompiledModel, which is the same delegate: what the runtime finds in the library under
// the name libLiteRtGpuAccelerator.so.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "delegate.h"

namespace nnhal::tflite {
namespace {

enum Answer : int { kGood = 0, kFailed = 500 };  // kLiteRtStatusErrorRuntimeFailure

constexpr int kGpu = 1 << 1;  // of the sets of hardware
constexpr const char* kName = "nnhal";

// What begins a table of functions from LiteRT 2.2 on. Before that, an accelerator began with the number 1, and the
// runtime's own table with its first function.
struct Header {
  std::uint16_t bytes, major, minor, reserved;
};

struct Version {
  int major, minor, patch;
};

// The accelerator's functions, and those of memory of its own, of which it has none.
struct Accelerator {
  Header header;
  int (*get_name)(void* accelerator, const char** name);
  int (*get_version)(void* accelerator, Version* version);
  int (*get_hardware)(void* accelerator, int* set);
  int (*compiles)(void* accelerator, bool* itself);
  int (*create_delegate)(void* runtime, void* environment, void* accelerator, void* options, void** wrapper);
  void (*destroy_delegate)(void* runtime, void* wrapper);
  void* metrics[2];
  void* memory[6];
  int tags[2];
  std::size_t type_count;
  int types[16];
};
static_assert(sizeof(Accelerator) == 200, "the accelerator has another layout than LiteRT's version 1");

// The runtime's table has a function that makes an object of LiteRT out of a delegate of TensorFlow Lite.
using WrapDelegate = int (*)(Delegate*, void (*destroy)(Delegate*), void** wrapper);
constexpr std::size_t kWrapDelegate = 17;  // its place among the functions

WrapDelegate wrap_delegate(const void* runtime) {
  const auto& header = *static_cast<const Header*>(runtime);
  constexpr std::uint16_t kMostMinor = 256;  // an address of a function is not taken for a header
  const bool has_header = header.major == 1 && header.minor < kMostMinor && header.reserved == 0;
  const std::size_t place = kWrapDelegate + (has_header ? 1 : 0);
  if (has_header && header.bytes < (place + 1) * sizeof(void*))
    throw Failure("this LiteRT has a table of " + std::to_string(header.bytes) + " bytes, expected " +
                  std::to_string((place + 1) * sizeof(void*)) + " or more");
  return static_cast<WrapDelegate const*>(runtime)[place];
}

int create_delegate(void* runtime, void*, void*, void*, void** wrapper) {
  try {
    const WrapDelegate wrap = wrap_delegate(runtime);
    auto made = std::make_unique<OwnDelegate>(Options::of_environment());
    const int answer =
        wrap(made.get(), [](Delegate* delegate) { delete static_cast<OwnDelegate*>(delegate); }, wrapper);
    if (answer == kGood) (void)made.release();
    return answer;
  } catch (const std::exception& error) {
    // LiteRT passes on no words of an accelerator.
    std::fprintf(stderr, "nnhal: %s\n", error.what());
    return kFailed;
  }
}

Header header_for_runtime() {
  bool is_old = false;
  (void)::dl_iterate_phdr(
      [](::dl_phdr_info* info, std::size_t, void* found) {
        const std::string_view path = info->dlpi_name;
        if (path.substr(path.rfind('/') + 1) != "libLiteRt.so") return 0;
        void* const library = ::dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
        // Of what came with headers this is the one that can be seen from outside.
        *static_cast<bool*>(found) = library && !::dlsym(library, "kLiteRtRuntimeBuiltin");
        if (library) ::dlclose(library);
        return 1;
      },
      &is_old);
  return is_old ? Header{1, 0, 0, 0} : Header{sizeof(Accelerator), 1, 0, 0};
}

}  // namespace
}  // namespace nnhal::tflite

// Found by this name. It is filled in when the library is loaded, which is for one runtime.
extern "C" __attribute__((visibility("default"))) nnhal::tflite::Accelerator LiteRtAcceleratorImpl;

nnhal::tflite::Accelerator LiteRtAcceleratorImpl = {nnhal::tflite::header_for_runtime(),
                                                    [](void*, const char** name) {
                                                      *name = nnhal::tflite::kName;
                                                      return int{nnhal::tflite::kGood};
                                                    },
                                                    [](void*, nnhal::tflite::Version* version) {
                                                      *version = {1, 0, 0};
                                                      return int{nnhal::tflite::kGood};
                                                    },
                                                    [](void*, int* set) {
                                                      *set = nnhal::tflite::kGpu;
                                                      return int{nnhal::tflite::kGood};
                                                    },
                                                    [](void*, bool* itself) {
                                                      *itself = true;
                                                      return int{nnhal::tflite::kGood};
                                                    },
                                                    nnhal::tflite::create_delegate,
                                                    [](void*, void*) {},
                                                    {},
                                                    {},
                                                    {},
                                                    0,
                                                    {}};
