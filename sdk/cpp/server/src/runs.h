// Prepared models, and executions of them: requests bound to memory, which run any number of times, once at a time.
#ifndef NNHAL_SERVER_RUNS_H_
#define NNHAL_SERVER_RUNS_H_

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nnhal/device.h"
#include "nnhal/v1/request.pb.h"
#include "pools.h"
#include "scheduler.h"
#include "sessions.h"

namespace nnhal {

using Wanted = std::function<bool()>;

// The device: its driver, its workers, and what it counts since the process started.
struct Device {
  Device(Driver& driver, int workers) : driver(driver), alignment(driver.alignment()), scheduler(workers) {}

  Driver& driver;
  const int alignment;
  Scheduler scheduler;
  Sessions sessions;
  std::atomic<std::int64_t> staged_bytes{0};
  std::atomic<std::int64_t> compiled_models{0};
};

class PreparedModel : public Object {
 public:
  PreparedModel(Device& device, std::shared_ptr<Session> session, std::shared_ptr<const Model> model,
                std::unique_ptr<Prepared> prepared, int priority)
      : device(device), session(session), owner(session.get()), model(std::move(model)), prepared(std::move(prepared)),
        priority(priority) {}

  const char* kind() const override { return "prepared model"; }

  Device& device;
  const std::weak_ptr<Session> session;
  const void* const owner;
  const std::shared_ptr<const Model> model;
  const std::unique_ptr<Prepared> prepared;
  const int priority;
};

// An argument with a copy in this process, since its own memory cannot be used in place.
struct Staged {
  std::shared_ptr<Pool> pool;
  std::int64_t offset;
  std::unique_ptr<char, decltype(&std::free)> data;
  std::size_t size;
};

struct Copy {
  bool is_output = false;
  std::int64_t bytes = 0, started_ns = 0, ended_ns = 0;
};

struct Shape {
  Dimensions dimensions;
  bool is_sufficient = true;
};

// What a client is told of a run that did not fail.
struct RunResult {
  bool is_sufficient = true;
  std::vector<Shape> shapes;  // empty if all were known before
  std::int64_t on_device_ns = kNoTime, in_driver_ns = kNoTime;
  std::vector<Copy> copies;
  std::int64_t started_ns = kNoTime, ended_ns = kNoTime;  // if the execution measures

  bool is_plain() const { return shapes.empty() && copies.empty() && started_ns == kNoTime; }
  void clear();
};

// What runs an execution whenever it is asked to over a socket; it ends with the execution.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void end() = 0;
  // Its execution was released.
  virtual void let_go() { end(); }
};

class Execution : public Object, public Arguments {
 public:
  Execution(std::shared_ptr<PreparedModel> prepared, bool measures, int priority)
      : prepared(std::move(prepared)), measures(measures), priority(priority) {}

  const char* kind() const override { return "execution"; }
  void end() override;

  const std::shared_ptr<PreparedModel> prepared;
  const bool measures;
  const int priority;
  std::vector<Staged> staged_inputs, staged_outputs;
  std::vector<std::shared_ptr<Pool>> pools;
  std::atomic<std::int64_t> last_run_ns{0};  // of its last launched run, or its last run as a stage

  // Runs it once. Throws Failure: GENERAL_FAILURE if it is running already. `is_wanted` is asked now and then.
  void run(std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result);
  // Reserves it for a run that comes later, and undoes that in any thread.
  void hold();
  void let_go() { is_busy_.clear(); }
  // Runs it once while it is held.
  void run_held(std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result, bool is_reserved);

  // Throws INVALID_ARGUMENT if an output has no known size: such a request cannot be fenced, nor be a stage.
  void require_known_outputs() const;
  // Whether its last run was shorter than it takes to wake another thread, and the next would begin at once.
  bool is_brief() const;

  // The runner ends when the execution is released. Returns false if it was released before.
  bool add_runner(std::weak_ptr<Runner> runner);
  bool is_released() const { return is_released_; }
  // The same one each time, made by `make` at the first call.
  template <class T>
  std::shared_ptr<T> only_runner(const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard<std::mutex> lock(guard_);
    if (own_runner_ == nullptr) own_runner_ = make();
    return std::static_pointer_cast<T>(own_runner_);
  }
  bool has_own_runner() const;

  // How the last launch over a launch channel ended, or will.
  std::shared_ptr<Object> launched;
  std::mutex launched_guard;

  bool set_dimensions(std::size_t output, const Dimensions& dimensions) override;
  void check() const override;

 private:
  void compute(RunResult& result);
  void conclude(RunResult& result);
  const v1::Operand& output_operand(std::size_t output) const;

  std::atomic_flag is_busy_ = ATOMIC_FLAG_INIT;
  Run* run_ = nullptr;  // the one under way
  mutable std::mutex guard_;
  std::atomic<bool> is_released_{false};
  std::vector<std::weak_ptr<Runner>> runners_;
  std::shared_ptr<Runner> own_runner_;
};

// Executions of one prepared model whose pools stay open between them.
class Burst : public Object {
 public:
  explicit Burst(std::shared_ptr<PreparedModel> prepared) : prepared(std::move(prepared)) {}

  const char* kind() const override { return "burst"; }

  const std::shared_ptr<PreparedModel> prepared;

  // Throw Failure: GENERAL_FAILURE while another execution runs.
  void run(Execution& execution, std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result);
  void execute(const v1::Request& request, const std::vector<std::int64_t>& tokens, const v1::ExecutionConfig& config,
               std::int64_t deadline_ns, const Wanted* is_wanted, const DescriptorTable& descriptors, RunResult& result);
  void release_memory(std::int64_t token);

 private:
  std::shared_ptr<Pool> opened(std::int64_t token, const PoolSource& source, bool writable);

  std::atomic_flag is_busy_ = ATOMIC_FLAG_INIT;
  std::mutex guard_;
  std::map<std::int64_t, std::shared_ptr<Pool>> pools_;
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_RUNS_H_
