// ANeuralNetworksCompilation: a model on devices.
#ifndef NNHAL_NDK_COMPILATION_H_
#define NNHAL_NDK_COMPILATION_H_

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "handles.h"
#include "model.h"
#include "session.h"

namespace nnhal::ndk {

class BoundRun;

// The hints that an application collects for a device.
class HintList {
 public:
  // BAD_DATA if the code is out of range or was given before.
  void add(const std::string& extension, std::uint16_t code, const void* data, std::size_t length);
  const client::Hints& hints() const { return hints_; }

 private:
  client::Hints hints_;
};

class Compilation : public Object {
 public:
  // Without devices all may be used, and the CPU if one fails; with devices there is no fallback.
  Compilation(std::shared_ptr<const Model> model, std::optional<std::vector<std::shared_ptr<Device>>> devices);
  ~Compilation() override;

  void set_preference(std::int32_t preference);
  void set_priority(std::int32_t priority);
  void set_timeout(std::uint64_t duration_ns);
  void set_caching(const std::uint8_t* token);
  void add_hint(const std::string& extension, std::uint16_t code, const void* data, std::size_t length);
  void finish();

  // Adds a hint for the only device that is named. BAD_DATA if the device does not know the extension.
  void add_hint_to(HintList& hints, const std::string& extension, std::uint16_t code, const void* data,
                   std::size_t length) const;
  // BAD_DATA unless exactly one device is named.
  void require_one_device(const char* what) const;
  // Whether it was finished, and did not fail.
  bool is_ready() const { return is_ready_; }
  void require_ready() const;
  // OP_FAILED if constants or dimensions of the model contradict one another: NNAPI compiles such a model, and fails to
  // execute it.
  void require_sound() const {
    if (!contradiction_.empty()) refuse(kOpFailed, contradiction_);
  }
  bool is_sound() const { return contradiction_.empty(); }
  const Model& model() const { return *model_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  const std::string& name() const { return name_; }
  // Where its inputs and outputs lie so that devices copy the least of them.
  const client::ClientMemory& memory() const { return memory_; }

  // Applications make an execution for each run, and a binding takes longer than most runs: one that is not used any
  // more goes to the next execution with arguments of the same kind.
  std::unique_ptr<BoundRun> take(const std::string& key);
  void give_back(std::unique_ptr<BoundRun> run);

 private:
  void require_unfinished() const;

  const std::shared_ptr<const Model> model_;
  const std::optional<std::vector<std::shared_ptr<Device>>> devices_;
  std::vector<std::string> names_;
  client::LoadOptions options_;
  std::uint64_t timeout_ns_ = 0;
  HintList hints_;
  bool is_finished_ = false, is_ready_ = false;
  std::shared_ptr<Session> session_;
  std::string name_, contradiction_;
  client::ClientMemory memory_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BoundRun>> idle_;
};

// The instant after a duration; none for 0.
std::int64_t deadline_after(std::uint64_t duration_ns);

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_COMPILATION_H_
