// The session with the framework that the whole process shares, and the devices that an application sees.
#ifndef NNHAL_NDK_SESSION_H_
#define NNHAL_NDK_SESSION_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "handles.h"
#include "nnhal/client/framework.h"

namespace nnhal::ndk {

// A device as the NDK shows it. It is found again by its name when the framework is restarted.
struct Device : Object {
  explicit Device(client::DeviceInfo described);

  client::DeviceInfo info;
  std::string name;  // the NDK's: the CPU, which takes what no other device takes, is "nnapi-reference"
};

class Session {
 public:
  // The session of this process: opened when it is first needed, and anew after it has ended, or after a fork. The
  // framework's directory is in the environment variable NNHAL_FRAMEWORK, by default /run/nnhal/framework.
  static std::shared_ptr<Session> current();

  client::Framework& framework() { return *framework_; }
  bool has_ended() const { return framework_->link().has_ended(); }
  // Handles of the devices that answered when the session began, in order of preference, the CPU last.
  const std::vector<void*>& devices() const { return devices_; }
  // Whether one of them knows the extension.
  bool knows(const std::string& extension) const;
  // Refuses what is wrong with a part of a model that is being built. Equal parts are asked about once.
  void check(const client::Model& draft);
  // A name for a model, which no other model of the session has.
  std::string new_name();

 private:
  explicit Session(std::unique_ptr<client::Framework> framework);

  std::unique_ptr<client::Framework> framework_;
  std::vector<void*> devices_;
  std::atomic<std::uint64_t> names_{0};
  std::mutex mutex_;
  std::map<std::string, Status> checked_;
};

// Descriptors that the messages of one call name: they are on the link as long as this lives.
class PutDescriptors {
 public:
  explicit PutDescriptors(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  PutDescriptors(PutDescriptors&& other) = default;
  ~PutDescriptors();

  // Returns the id of a descriptor.
  std::uint64_t put(const Fd& descriptor);
  Session& session() const { return *session_; }

 private:
  std::shared_ptr<Session> session_;
  std::vector<std::uint64_t> ids_;
};

// The framework's names of devices. BAD_DATA if there is none, or one twice.
std::vector<std::string> names_of(const std::vector<std::shared_ptr<Device>>& devices);

// The prefix of an extension's codes, the same in all models of the process: they refer to one another.
std::uint16_t prefix_of(const std::string& extension);
// The extensions that have one.
std::vector<client::ExtensionPrefix> known_prefixes();

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_SESSION_H_
