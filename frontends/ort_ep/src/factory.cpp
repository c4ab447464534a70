// What ONNX Runtime finds in the library: a factory of providers.
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "arena.h"
#include "calls.h"
#include "provider.h"

namespace nnhal::ort_ep {
namespace {

constexpr std::uint32_t kVendor = 0x6e6e;
constexpr const char* kDeviceKey = "nnhal_device";  // in the metadata of a device; empty for the whole framework

// A library may be unregistered while sessions are alive: it goes with the last one of those that use it.
class Factory : public OrtEpFactory {
 public:
  Factory(const OrtLogger* logger, bool has_virtual_devices);
  void release() {
    if (--users_ == 0) delete this;
  }

 private:
  std::size_t find_devices(const OrtHardwareDevice* const* hardware, std::size_t count, OrtEpDevice** found,
                           std::size_t room);
  OrtEpDevice* make_device(const OrtHardwareDevice* hardware, const client::DeviceInfo& device, std::uint32_t number);
  OrtEp* make_provider(const OrtKeyValuePairs* const* metadata, std::size_t count, const OrtSessionOptions* options,
                       const OrtLogger* logger);
  std::shared_ptr<Arena> arena();

  const OrtLogger* const logger_;
  const bool has_virtual_devices_;
  OrtMemoryInfo* memory_info_ = nullptr;
  std::shared_ptr<client::Session> session_;  // that devices were found in; other sessions of the process share it
  std::mutex mutex_;
  std::shared_ptr<Arena> arena_;
  std::atomic<int> users_{1};
};

Factory::Factory(const OrtLogger* logger, bool has_virtual_devices)
    : OrtEpFactory{}, logger_(logger), has_virtual_devices_(has_virtual_devices) {
  check(ort().CreateMemoryInfo_V2("nnhal", kMemoryOfNpu, kVendor, 0, kMemoryHostAccessible, 64, kDeviceAllocator,
                                  &memory_info_));
  ort_version_supported = kApiVersion;
  GetName = [](const OrtEpFactory*) { return kProviderName; };
  GetVendor = [](const OrtEpFactory*) { return "nnhal"; };
  GetVendorId = [](const OrtEpFactory*) { return kVendor; };
  GetVersion = [](const OrtEpFactory*) { return NNHAL_ORT_VERSION; };
  IsStreamAware = [](const OrtEpFactory*) { return false; };
  GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* hardware, std::size_t count,
                           OrtEpDevice** found, std::size_t room, std::size_t* number) {
    *number = 0;
    return guarded([&] { *number = static_cast<Factory*>(self)->find_devices(hardware, count, found, room); });
  };
  CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata,
                std::size_t count, const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** provider) {
    return guarded([&] { *provider = static_cast<Factory*>(self)->make_provider(metadata, count, options, logger); });
  };
  ReleaseEp = [](OrtEpFactory* self, OrtEp* provider) {
    delete static_cast<Provider*>(provider);
    static_cast<Factory*>(self)->release();
  };
  CreateAllocator = [](OrtEpFactory* self, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator** allocator) {
    return guarded([&] {
      *allocator = static_cast<Factory*>(self)->arena().get();
      ++static_cast<Factory*>(self)->users_;
    });
  };
  ReleaseAllocator = [](OrtEpFactory* self, OrtAllocator*) { static_cast<Factory*>(self)->release(); };
  // ONNX Runtime calls it without asking whether it is there.
  CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** transfer) {
    *transfer = nullptr;
    return static_cast<OrtStatus*>(nullptr);
  };
}

std::size_t Factory::find_devices(const OrtHardwareDevice* const* hardware, std::size_t count, OrtEpDevice** found,
                                  std::size_t room) {
  const OrtHardwareDevice* host = nullptr;
  for (std::size_t index = 0; index < count; ++index)
    if (ort().HardwareDevice_Type(hardware[index]) == kCpu) host = hardware[index];
  std::vector<client::DeviceInfo> devices;
  try {
    session_ = client::Session::of(client::default_directory(), kClientName);
    devices = take(take(session_->framework())->devices());
  } catch (const Failure& failure) {
    log(logger_, kWarning,
        "no devices, since no framework answers in " + client::default_directory() + ": " + failure.what());
    return 0;
  }
  // A provider that is asked for by its name gets the first device only: that one stands for all of them.
  devices.insert(devices.begin(), client::DeviceInfo());
  std::size_t made = 0;
  for (; host && made < devices.size() && made < room; ++made)
    found[made] = make_device(host, devices[made], static_cast<std::uint32_t>(made));
  return made;
}

OrtEpDevice* Factory::make_device(const OrtHardwareDevice* hardware, const client::DeviceInfo& device,
                                  std::uint32_t number) {
  OrtKeyValuePairs* metadata = nullptr;
  ort().CreateKeyValuePairs(&metadata);
  ort().AddKeyValuePair(metadata, kDeviceKey, device.name.c_str());
  ort().AddKeyValuePair(metadata, "nnhal_version", device.version.c_str());
  OrtEpDevice* made = nullptr;
  OrtStatus* status = nullptr;
  if (has_virtual_devices_) {
    constexpr int kHalCpu = 2, kHalGpu = 3;  // DeviceType of types.proto
    const int type = device.type == kHalCpu ? kCpu : device.type == kHalGpu ? kGpu : kNpu;
    OrtHardwareDevice* own = nullptr;  // ONNX Runtime keeps it
    status = ort().CreateHardwareDevice(type, kVendor, number, "nnhal", metadata, &own);
    hardware = own;
  }
  if (!status) status = ort().CreateEpDevice(this, hardware, metadata, nullptr, &made);
  ort().ReleaseKeyValuePairs(metadata);
  check(status);
  check(ort().EpDevice_AddAllocatorInfo(made, memory_info_));
  return made;
}

OrtEp* Factory::make_provider(const OrtKeyValuePairs* const* metadata, std::size_t count,
                              const OrtSessionOptions* session, const OrtLogger* logger) {
  Options options;
  std::shared_ptr<Arena> memory;
  std::string failure;
  try {
    options = read_options(session);
    memory = arena();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::vector<std::string> chosen;
  for (std::size_t index = 0; index < count; ++index) {
    const char* const name = metadata[index] ? ort().GetKeyValue(metadata[index], kDeviceKey) : nullptr;
    chosen.emplace_back(name ? name : "");
  }
  // The device that stands for the whole framework has no name.
  const bool has_all = std::find(chosen.begin(), chosen.end(), "") != chosen.end();
  if (options.load.devices.empty() && !has_all) options.load.devices = chosen;
  OrtEp* const provider = new Provider(std::move(options), std::move(memory), logger, std::move(failure));
  ++users_;
  return provider;
}

std::shared_ptr<Arena> Factory::arena() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!arena_) arena_ = std::make_shared<Arena>(memory_info_);
  return arena_;
}

}  // namespace
}  // namespace nnhal::ort_ep

using namespace nnhal::ort_ep;

#define NNHAL_EXPORTED extern "C" __attribute__((visibility("default")))

NNHAL_EXPORTED OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                            OrtEpFactory** factories, std::size_t room, std::size_t* count) {
  *count = 0;
  if (const std::string refusal = use(base); !refusal.empty()) return failed(refusal.c_str());
  if (room == 0) return failed("there is no room for a factory");
  return guarded([&] {
    const std::string_view registered = name ? name : "", suffix = ".virtual";
    // ONNX Runtime lets a library bring its own devices if it is registered under such a name.
    const bool has_virtual_devices =
        registered.size() > suffix.size() && registered.substr(registered.size() - suffix.size()) == suffix;
    factories[0] = new Factory(logger, has_virtual_devices);
    *count = 1;
  });
}

NNHAL_EXPORTED OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  static_cast<Factory*>(factory)->release();
  return nullptr;
}
