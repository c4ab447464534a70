// What libneuralnetworks.so exports: the functions of NeuralNetworks.h, feature level 8.
//
// NNHAL_NDK_LOG=1 has each refused call say on standard error what was got and what was expected.
#include <cstdio>
#include <exception>
#include <new>

#include "compilation.h"
#include "event.h"
#include "execution.h"
#include "handles.h"
#include "memory.h"
#include "model.h"
#include "session.h"

#define NNHAL_EXPORT extern "C" __attribute__((visibility("default")))

using namespace nnhal::ndk;

namespace {

using Handle = const void*;

// Of this thread.
std::string& last_refusal() {
  static thread_local std::string text;
  return text;
}

void log(const char* function, ResultCode code, const std::string& text) {
  last_refusal() = text;
  if (is_logging()) std::fprintf(stderr, "%s: result %d: %s\n", function, code, text.c_str());
}

// Nothing that is thrown leaves the library, and nothing that was refused looks like success.
template <typename Work>
int call(const char* function, const Work& work) noexcept {
  try {
    work();
    return kNoError;
  } catch (const Refusal& refusal) {
    log(function, refusal.code, refusal.text);
    return refusal.code;
  } catch (const std::bad_alloc&) {
    last_refusal().clear();
    return kOutOfMemory;
  } catch (const std::exception& error) {
    log(function, kOpFailed, error.what());
    return kOpFailed;
  } catch (...) {
    return kOpFailed;
  }
}
#define CALL(work) call(__func__, [&] work)

std::string text(const char* given, const char* what) {
  require_pointer(given, what);
  return given;
}

Dimensions numbers(std::uint32_t count, const std::uint32_t* given, const char* what) {
  if (count) require_pointer(given, what);
  return Dimensions(given, given + count);
}

std::vector<std::shared_ptr<Device>> listed(const Handle* devices, std::uint32_t count) {
  require_pointer(devices, "the list of devices");
  std::vector<std::shared_ptr<Device>> found;
  for (std::uint32_t index = 0; index < count; ++index) found.push_back(get<Device>(devices[index]));
  if (found.empty()) bad_data("no devices, expected at least one");
  return found;
}

// A result that is an object: null as long as there is none.
void make(void** result, const std::function<std::shared_ptr<Object>()>& made) {
  require_pointer(result, "the result");
  *result = nullptr;
  *result = put(made());
}

void require_place(const void* result) { require_pointer(result, "the result"); }

int extension_code(Handle model, const char* extension, std::uint16_t code, std::int32_t* result,
                   const char* function) {
  return call(function, [&] {
    require_place(result);
    get<Model>(model);
    const std::string name = text(extension, "the extension's name");
    if (!Session::current()->knows(name)) bad_data("no device knows extension " + name);
    *result = prefix_of(name) << 16 | code;
  });
}

int preference(Handle compilation, std::uint32_t index, bool is_output, std::uint32_t* result, const char* function) {
  return call(function, [&] {
    require_place(result);
    const auto one = get<Compilation>(compilation);
    one->require_ready();
    const std::size_t count = is_output ? one->model().outputs() : one->model().inputs();
    if (index >= count) bad_data("index " + std::to_string(index) + " of " + std::to_string(count));
    *result = kPreferredAlignment;
  });
}

}  // namespace

// Devices.

NNHAL_EXPORT int ANeuralNetworks_getDeviceCount(std::uint32_t* result) {
  return CALL({
    require_place(result);
    *result = static_cast<std::uint32_t>(Session::current()->devices().size());
  });
}

NNHAL_EXPORT int ANeuralNetworks_getDevice(std::uint32_t index, void** result) {
  return CALL({
    require_place(result);
    const std::shared_ptr<Session> session = Session::current();
    if (index >= session->devices().size())
      bad_data("device " + std::to_string(index) + " of " + std::to_string(session->devices().size()));
    *result = session->devices()[index];
  });
}

NNHAL_EXPORT int ANeuralNetworksDevice_getName(Handle device, const char** result) {
  return CALL({
    require_place(result);
    *result = get<Device>(device)->name.c_str();  // devices are kept as long as the process
  });
}

NNHAL_EXPORT int ANeuralNetworksDevice_getVersion(Handle device, const char** result) {
  return CALL({
    require_place(result);
    *result = get<Device>(device)->info.version.c_str();
  });
}

NNHAL_EXPORT int ANeuralNetworksDevice_getType(Handle device, std::int32_t* result) {
  return CALL({
    require_place(result);
    *result = get<Device>(device)->info.type;
  });
}

NNHAL_EXPORT int ANeuralNetworksDevice_getFeatureLevel(Handle device, std::int64_t* result) {
  return CALL({
    require_place(result);
    get<Device>(device);
    *result = kFeatureLevel;
  });
}

NNHAL_EXPORT int ANeuralNetworksDevice_wait(Handle device) {
  return CALL({ get<Device>(device); });  // those that are listed answer
}

NNHAL_EXPORT int ANeuralNetworksDevice_getExtensionSupport(Handle device, const char* extension, bool* result) {
  return CALL({
    require_place(result);
    const std::string name = text(extension, "the extension's name");
    *result = false;
    for (const std::string& known : get<Device>(device)->info.extensions) *result |= known == name;
  });
}

NNHAL_EXPORT std::int64_t ANeuralNetworks_getRuntimeFeatureLevel() { return kFeatureLevel; }
NNHAL_EXPORT std::uint64_t ANeuralNetworks_getDefaultLoopTimeout() { return kDefaultLoopTimeoutNs; }
NNHAL_EXPORT std::uint64_t ANeuralNetworks_getMaximumLoopTimeout() { return kMaximumLoopTimeoutNs; }

// Models.

NNHAL_EXPORT int ANeuralNetworksModel_create(void** result) {
  return CALL({ make(result, [] { return std::make_shared<Model>(); }); });
}

NNHAL_EXPORT void ANeuralNetworksModel_free(Handle model) { forget(model); }

NNHAL_EXPORT int ANeuralNetworksModel_finish(Handle model) {
  return CALL({ get<Model>(model)->finish(); });
}

NNHAL_EXPORT int ANeuralNetworksModel_addOperand(Handle model, const OperandType* type) {
  return CALL({
    const auto one = get<Model>(model);
    require_pointer(type, "the operand's type");
    one->add_operand(*type);
  });
}

NNHAL_EXPORT int ANeuralNetworksModel_setOperandValue(Handle model, std::int32_t index, const void* buffer,
                                                      std::size_t length) {
  return CALL({ get<Model>(model)->set_value(index, buffer, length); });
}

NNHAL_EXPORT int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(Handle model, std::int32_t index,
                                                                          const ChannelQuantisation* params) {
  return CALL({
    const auto one = get<Model>(model);
    require_pointer(params, "the quantisation");
    one->set_channel_quantisation(index, *params);
  });
}

NNHAL_EXPORT int ANeuralNetworksModel_setOperandValueFromMemory(Handle model, std::int32_t index, Handle memory,
                                                                std::size_t offset, std::size_t length) {
  return CALL({ get<Model>(model)->set_value(index, get<Memory>(memory), offset, length); });
}

NNHAL_EXPORT int ANeuralNetworksModel_setOperandValueFromModel(Handle model, std::int32_t index, Handle value) {
  return CALL({ get<Model>(model)->set_value(index, get<Model>(value)); });
}

NNHAL_EXPORT int ANeuralNetworksModel_setOperandExtensionData(Handle model, std::int32_t index, const void* data,
                                                              std::size_t length) {
  return CALL({ get<Model>(model)->set_extension_data(index, data, length); });
}

NNHAL_EXPORT int ANeuralNetworksModel_addOperation(Handle model, std::int32_t type, std::uint32_t input_count,
                                                   const std::uint32_t* inputs, std::uint32_t output_count,
                                                   const std::uint32_t* outputs) {
  return CALL({
    const auto one = get<Model>(model);
    require_pointer(inputs, "the list of inputs");
    require_pointer(outputs, "the list of outputs");
    one->add_operation(type, Dimensions(inputs, inputs + input_count), Dimensions(outputs, outputs + output_count));
  });
}

NNHAL_EXPORT int ANeuralNetworksModel_identifyInputsAndOutputs(Handle model, std::uint32_t input_count,
                                                               const std::uint32_t* inputs, std::uint32_t output_count,
                                                               const std::uint32_t* outputs) {
  return CALL({
    const auto one = get<Model>(model);
    require_pointer(inputs, "the list of inputs");
    require_pointer(outputs, "the list of outputs");
    one->identify(Dimensions(inputs, inputs + input_count), Dimensions(outputs, outputs + output_count));
  });
}

NNHAL_EXPORT int ANeuralNetworksModel_relaxComputationFloat32toFloat16(Handle model, bool allow) {
  return CALL({ get<Model>(model)->relax(allow); });
}

NNHAL_EXPORT int ANeuralNetworksModel_getSupportedOperationsForDevices(Handle model, const Handle* devices,
                                                                       std::uint32_t count, bool* result) {
  return CALL({
    const auto one = get<Model>(model);
    require_place(result);
    const std::vector<std::string> names = names_of(listed(devices, count));
    one->require_finished();
    if (one->uses_oem()) {
      std::fill(result, result + one->operations(), false);
      return;
    }
    const SentModel sent = one->sent(Session::current());
    const std::vector<bool> supported = required(sent.framework().supported_operations(sent.model, names));
    std::copy(supported.begin(), supported.end(), result);
  });
}

NNHAL_EXPORT int ANeuralNetworksModel_getExtensionOperandType(Handle model, const char* extension, std::uint16_t code,
                                                              std::int32_t* result) {
  return extension_code(model, extension, code, result, __func__);
}

NNHAL_EXPORT int ANeuralNetworksModel_getExtensionOperationType(Handle model, const char* extension, std::uint16_t code,
                                                                std::int32_t* result) {
  return extension_code(model, extension, code, result, __func__);
}

// Compilations.

NNHAL_EXPORT int ANeuralNetworksCompilation_create(Handle model, void** result) {
  return CALL({
    const auto one = get<Model>(model);
    make(result, [&] { return std::make_shared<Compilation>(one, std::nullopt); });
  });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_createForDevices(Handle model, const Handle* devices, std::uint32_t count,
                                                             void** result) {
  return CALL({
    const auto one = get<Model>(model);
    const auto found = listed(devices, count);
    make(result, [&] { return std::make_shared<Compilation>(one, found); });
  });
}

NNHAL_EXPORT void ANeuralNetworksCompilation_free(Handle compilation) { forget(compilation); }

NNHAL_EXPORT int ANeuralNetworksCompilation_setPreference(Handle compilation, std::int32_t value) {
  return CALL({ get<Compilation>(compilation)->set_preference(value); });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_setPriority(Handle compilation, int value) {
  return CALL({ get<Compilation>(compilation)->set_priority(value); });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_setTimeout(Handle compilation, std::uint64_t duration_ns) {
  return CALL({ get<Compilation>(compilation)->set_timeout(duration_ns); });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_setCaching(Handle compilation, const char* directory,
                                                       const std::uint8_t* token) {
  return CALL({
    const auto one = get<Compilation>(compilation);
    require_pointer(directory, "the directory");
    require_pointer(token, "the token");
    one->set_caching(token);
  });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_addExtensionAttribute(Handle compilation, const char* extension,
                                                                  std::uint16_t code, const void* data,
                                                                  std::size_t length) {
  return CALL({
    const auto one = get<Compilation>(compilation);
    require_pointer(data, "the attribute's data");
    one->add_hint(text(extension, "the extension's name"), code, data, length);
  });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_finish(Handle compilation) {
  return CALL({ get<Compilation>(compilation)->finish(); });
}

NNHAL_EXPORT int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForInput(Handle compilation, std::uint32_t index,
                                                                                std::uint32_t* result) {
  return preference(compilation, index, false, result, __func__);
}

NNHAL_EXPORT int ANeuralNetworksCompilation_getPreferredMemoryPaddingForInput(Handle compilation, std::uint32_t index,
                                                                              std::uint32_t* result) {
  return preference(compilation, index, false, result, __func__);
}

NNHAL_EXPORT int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForOutput(Handle compilation,
                                                                                 std::uint32_t index,
                                                                                 std::uint32_t* result) {
  return preference(compilation, index, true, result, __func__);
}

NNHAL_EXPORT int ANeuralNetworksCompilation_getPreferredMemoryPaddingForOutput(Handle compilation, std::uint32_t index,
                                                                               std::uint32_t* result) {
  return preference(compilation, index, true, result, __func__);
}

// Memory.

NNHAL_EXPORT int ANeuralNetworksMemory_createFromFd(std::size_t size, int protect, int descriptor, std::size_t offset,
                                                    void** result) {
  return CALL({ make(result, [&] { return std::make_shared<FileMemory>(size, protect, descriptor, offset); }); });
}

NNHAL_EXPORT int ANeuralNetworksMemory_createFromAHardwareBuffer(const void* buffer, void** result) {
  return CALL({
    require_place(result);
    *result = nullptr;
    require_pointer(buffer, "the hardware buffer");
    bad_data("a hardware buffer, which this system has none of");  // as on a device without it
  });
}

NNHAL_EXPORT int ANeuralNetworksMemory_createFromDesc(Handle description, void** result) {
  return CALL({
    const auto one = get<MemoryDescription>(description);
    make(result, [&] { return one->create(); });
  });
}

NNHAL_EXPORT void ANeuralNetworksMemory_free(Handle memory) { forget(memory); }

NNHAL_EXPORT int ANeuralNetworksMemory_copy(Handle source, Handle destination) {
  return CALL({ Memory::copy(*get<Memory>(source), *get<Memory>(destination)); });
}

NNHAL_EXPORT int ANeuralNetworksMemoryDesc_create(void** result) {
  return CALL({ make(result, [] { return std::make_shared<MemoryDescription>(); }); });
}

NNHAL_EXPORT void ANeuralNetworksMemoryDesc_free(Handle description) { forget(description); }

NNHAL_EXPORT int ANeuralNetworksMemoryDesc_addInputRole(Handle description, Handle compilation, std::uint32_t index,
                                                        float frequency) {
  return CALL(
      { get<MemoryDescription>(description)->add_role(get<Compilation>(compilation), false, index, frequency); });
}

NNHAL_EXPORT int ANeuralNetworksMemoryDesc_addOutputRole(Handle description, Handle compilation, std::uint32_t index,
                                                         float frequency) {
  return CALL(
      { get<MemoryDescription>(description)->add_role(get<Compilation>(compilation), true, index, frequency); });
}

NNHAL_EXPORT int ANeuralNetworksMemoryDesc_setDimensions(Handle description, std::uint32_t rank,
                                                         const std::uint32_t* dimensions) {
  return CALL({ get<MemoryDescription>(description)->set_dimensions(numbers(rank, dimensions, "the dimensions")); });
}

NNHAL_EXPORT int ANeuralNetworksMemoryDesc_finish(Handle description) {
  return CALL({ get<MemoryDescription>(description)->finish(); });
}

// Executions.

NNHAL_EXPORT int ANeuralNetworksBurst_create(Handle compilation, void** result) {
  return CALL({
    const auto one = get<Compilation>(compilation);
    make(result, [&] { return std::make_shared<Burst>(one); });
  });
}

NNHAL_EXPORT void ANeuralNetworksBurst_free(Handle burst) { forget(burst); }

NNHAL_EXPORT int ANeuralNetworksExecution_create(Handle compilation, void** result) {
  return CALL({
    const auto one = get<Compilation>(compilation);
    make(result, [&] { return std::make_shared<Execution>(one); });
  });
}

NNHAL_EXPORT void ANeuralNetworksExecution_free(Handle execution) { forget(execution); }

NNHAL_EXPORT int ANeuralNetworksExecution_setInput(Handle execution, std::int32_t index, const OperandType* type,
                                                   const void* buffer, std::size_t length) {
  return CALL({ get<Execution>(execution)->set_input(index, type, buffer, length); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setInputFromMemory(Handle execution, std::int32_t index,
                                                             const OperandType* type, Handle memory, std::size_t offset,
                                                             std::size_t length) {
  return CALL({ get<Execution>(execution)->set_input(index, type, get<Memory>(memory), offset, length); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setOutput(Handle execution, std::int32_t index, const OperandType* type,
                                                    void* buffer, std::size_t length) {
  return CALL({ get<Execution>(execution)->set_output(index, type, buffer, length); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setOutputFromMemory(Handle execution, std::int32_t index,
                                                              const OperandType* type, Handle memory,
                                                              std::size_t offset, std::size_t length) {
  return CALL({ get<Execution>(execution)->set_output(index, type, get<Memory>(memory), offset, length); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setMeasureTiming(Handle execution, bool measure) {
  return CALL({ get<Execution>(execution)->set_measures(measure); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setTimeout(Handle execution, std::uint64_t duration_ns) {
  return CALL({ get<Execution>(execution)->set_timeout(duration_ns); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setLoopTimeout(Handle execution, std::uint64_t duration_ns) {
  return CALL({ get<Execution>(execution)->set_loop_timeout(duration_ns); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_setReusable(Handle execution, bool reusable) {
  return CALL({ get<Execution>(execution)->set_reusable(reusable); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_enableInputAndOutputPadding(Handle execution, bool enable) {
  return CALL({ get<Execution>(execution)->pad(enable); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_addExtensionAttribute(Handle execution, const char* extension,
                                                                std::uint16_t code, const void* data,
                                                                std::size_t length) {
  return CALL({
    const auto one = get<Execution>(execution);
    require_pointer(data, "the attribute's data");
    one->add_hint(text(extension, "the extension's name"), code, data, length);
  });
}

NNHAL_EXPORT int ANeuralNetworksExecution_compute(Handle execution) {
  return CALL({ get<Execution>(execution)->compute(); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_burstCompute(Handle execution, Handle burst) {
  return CALL({ get<Execution>(execution)->compute_in(*get<Burst>(burst)); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_startCompute(Handle execution, void** result) {
  return CALL({ make(result, [&] { return get<Execution>(execution)->start(); }); });
}

NNHAL_EXPORT int ANeuralNetworksExecution_startComputeWithDependencies(Handle execution, const Handle* dependencies,
                                                                       std::uint32_t count, std::uint64_t duration_ns,
                                                                       void** result) {
  return CALL({
    make(result, [&] {
      const auto one = get<Execution>(execution);
      if (count) require_pointer(dependencies, "the list of dependencies");
      std::vector<std::shared_ptr<Event>> events;
      for (std::uint32_t index = 0; index < count; ++index) events.push_back(get<Event>(dependencies[index]));
      return one->start_after(events, duration_ns);
    });
  });
}

NNHAL_EXPORT int ANeuralNetworksExecution_getDuration(Handle execution, std::int32_t code, std::uint64_t* result) {
  return CALL({
    require_place(result);
    *result = kUnknownDuration;
    *result = get<Execution>(execution)->duration(code);
  });
}

NNHAL_EXPORT int ANeuralNetworksExecution_getOutputOperandRank(Handle execution, std::int32_t index,
                                                               std::uint32_t* result) {
  return CALL({
    const auto one = get<Execution>(execution);
    require_place(result);
    Dimensions found;
    const ResultCode code = one->output_dimensions(index, found);
    *result = static_cast<std::uint32_t>(found.size());
    if (code) refuse(code, "output " + std::to_string(index) + " did not fit its buffer");
  });
}

NNHAL_EXPORT int ANeuralNetworksExecution_getOutputOperandDimensions(Handle execution, std::int32_t index,
                                                                     std::uint32_t* result) {
  return CALL({
    const auto one = get<Execution>(execution);
    require_place(result);
    Dimensions found;
    const ResultCode code = one->output_dimensions(index, found);
    if (found.empty() && !code) bad_data("output " + std::to_string(index) + " is a scalar");
    std::copy(found.begin(), found.end(), result);
    if (code) refuse(code, "output " + std::to_string(index) + " did not fit its buffer");
  });
}

// Events.

NNHAL_EXPORT int ANeuralNetworksEvent_createFromSyncFenceFd(int descriptor, void** result) {
  return CALL({ make(result, [&] { return Event::of_descriptor(descriptor); }); });
}

NNHAL_EXPORT int ANeuralNetworksEvent_getSyncFenceFd(Handle event, int* result) {
  return CALL({
    require_place(result);
    *result = -1;
    *result = get<Event>(event)->sync_fence();
  });
}

NNHAL_EXPORT int ANeuralNetworksEvent_wait(Handle event) {
  return CALL({ get<Event>(event)->wait(); });
}

NNHAL_EXPORT void ANeuralNetworksEvent_free(Handle event) {
  if (!event) return;
  (void)CALL({ get<Event>(event)->settle(); });
  forget(event);
}

NNHAL_EXPORT const char* ANeuralNetworksNnhal_getRefusal() { return last_refusal().c_str(); }
