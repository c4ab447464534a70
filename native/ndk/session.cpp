#include "session.h"

#include <algorithm>

#include "nnhal/client/session.h"

namespace nnhal::ndk {
namespace {

constexpr const char* kCpu = "cpu_ref";                // the framework's name of it
constexpr const char* kReference = "nnapi-reference";  // the NDK's
constexpr std::size_t kMaxChecked = 4096;
constexpr std::size_t kMaxPrefix = 0x7fff;

struct Prefixes {
  std::mutex mutex;
  std::vector<client::ExtensionPrefix> all;
};

Prefixes& prefixes() {
  static Prefixes* made = new Prefixes;
  return *made;
}

}  // namespace

Device::Device(client::DeviceInfo described)
    : info(std::move(described)), name(info.name == kCpu ? kReference : info.name) {}

Session::Session(std::unique_ptr<client::Framework> framework) : framework_(std::move(framework)) {
  std::vector<client::DeviceInfo> found = required(framework_->devices());
  std::stable_partition(found.begin(), found.end(), [](const client::DeviceInfo& one) { return one.name != kCpu; });
  for (client::DeviceInfo& device : found)
    if (device.is_available) devices_.push_back(put(std::make_shared<Device>(std::move(device))));
}

std::shared_ptr<Session> Session::current() {
  struct Current {
    std::mutex mutex;
    std::shared_ptr<Session> session;
  };
  // One for each generation: a child leaves its parent's as it is, with whatever thread holds its mutex.
  static std::atomic<Current*> shared{new Current};
  static std::atomic<unsigned> made_in{generation()};
  if (made_in.exchange(generation()) != generation()) shared = new Current;
  Current& current = *shared;
  const std::lock_guard<std::mutex> lock(current.mutex);
  if (current.session && !current.session->has_ended()) return current.session;
  client::Link::Options options;
  options.client_name = "libneuralnetworks";
  current.session.reset(new Session(required(client::Framework::open(client::default_directory(), options))));
  return current.session;
}

bool Session::knows(const std::string& extension) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const void* handle) {
    const std::vector<std::string>& known = get<Device>(handle)->info.extensions;
    return std::find(known.begin(), known.end(), extension) != known.end();
  });
}

void Session::check(const client::Model& draft) {
  const std::string key = draft.encode().encoded();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = checked_.find(key); found != checked_.end()) return require(found->second);
  }
  Status status = framework_->check(draft, client::Check::kDraft);
  if (status.ok() || status.is_answer()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (checked_.size() >= kMaxChecked) checked_.clear();
    checked_.emplace(key, status);
  }
  require(status);
}

std::string Session::new_name() { return "model" + std::to_string(++names_); }

PutDescriptors::~PutDescriptors() {
  if (!ids_.empty()) (void)session_->framework().link().drop(ids_);
}

std::uint64_t PutDescriptors::put(const Fd& descriptor) {
  ids_.push_back(required(session_->framework().link().put(descriptor)));
  return ids_.back();
}

std::vector<std::string> names_of(const std::vector<std::shared_ptr<Device>>& devices) {
  std::vector<std::string> names;
  for (const std::shared_ptr<Device>& device : devices) {
    if (std::find(names.begin(), names.end(), device->info.name) != names.end())
      bad_data("device " + device->name + " is listed twice");
    names.push_back(device->info.name);
  }
  if (names.empty()) bad_data("no devices, expected at least one");
  return names;
}

std::uint16_t prefix_of(const std::string& extension) {
  Prefixes& known = prefixes();
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (const client::ExtensionPrefix& one : known.all)
    if (one.name == extension) return one.prefix;
  if (known.all.size() == kMaxPrefix) refuse(kOutOfMemory, "no prefix is left for extension " + extension);
  known.all.push_back({extension, static_cast<std::uint16_t>(known.all.size() + 1)});
  return known.all.back().prefix;
}

std::vector<client::ExtensionPrefix> known_prefixes() {
  Prefixes& known = prefixes();
  const std::lock_guard<std::mutex> lock(known.mutex);
  return known.all;
}

}  // namespace nnhal::ndk
