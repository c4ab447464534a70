// ANeuralNetworksExecution and ANeuralNetworksBurst: one run, or many, of a compilation.
#ifndef NNHAL_NDK_EXECUTION_H_
#define NNHAL_NDK_EXECUTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "arguments.h"
#include "bound_run.h"
#include "compilation.h"
#include "event.h"

namespace nnhal::ndk {

// Executions of one compilation that follow one another closely. One at a time.
struct Burst : Object {
  explicit Burst(std::shared_ptr<Compilation> of) : compilation(std::move(of)) { compilation->require_ready(); }

  const std::shared_ptr<Compilation> compilation;
  std::atomic_flag is_busy = ATOMIC_FLAG_INIT;
};

// Safe to use from several threads. Buffers are read when it is computed, and written once it is known to have
// succeeded: when compute() returns, or when the application has waited for the event.
class Execution : public Object, public std::enable_shared_from_this<Execution> {
 public:
  explicit Execution(std::shared_ptr<Compilation> compilation);
  ~Execution() override;

  // Before it is computed; BAD_STATE afterwards.
  void set_reusable(bool is_reusable);
  void pad(bool is_padded);
  void set_measures(bool measures);
  void set_timeout(std::uint64_t duration_ns);
  void set_loop_timeout(std::uint64_t duration_ns);
  void add_hint(const std::string& extension, std::uint16_t code, const void* data, std::size_t length);
  void set_input(std::int32_t index, const OperandType* type, const void* buffer, std::size_t length);
  void set_input(std::int32_t index, const OperandType* type, std::shared_ptr<Memory> memory, std::size_t offset,
                 std::size_t length);
  void set_output(std::int32_t index, const OperandType* type, void* buffer, std::size_t length);
  void set_output(std::int32_t index, const OperandType* type, std::shared_ptr<Memory> memory, std::size_t offset,
                  std::size_t length);

  void compute();
  void compute_in(Burst& burst);
  std::shared_ptr<Event> start();
  std::shared_ptr<Event> start_after(const std::vector<std::shared_ptr<Event>>& dependencies,
                                     std::uint64_t duration_ns);

  // After it was computed; BAD_STATE before, or if it has failed. OUTPUT_INSUFFICIENT_SIZE if this output did not fit:
  // `found` then has what is known of what it needs.
  ResultCode output_dimensions(std::int32_t index, Dimensions& found);
  // Nanoseconds; kUnknownDuration if the device does not say. BAD_STATE if it was not measured, or has not succeeded.
  std::uint64_t duration(std::int32_t code);

  // Waits for the end of what runs, and releases what it was bound to.
  void end();

 private:
  enum class State { kPreparation, kRunning, kCompleted };
  // How a run has ended.
  struct Outcome {
    ResultCode code = kNoError;
    std::string text;
    client::RunReport report;
    bool is_launched = false;  // then the report has times of its own, which may be unknown
  };

  // With the lock held: notes the end of a launched run, if it has come.
  void look();
  void require_preparation();
  void require_computable();
  // Enters kRunning.
  void begin();
  // With the state kRunning.
  BoundRun& bound();
  void run(std::int64_t deadline_ns);
  void complete(Outcome outcome);
  // Ends the execution if `work` refuses or throws.
  void guarded(const std::function<void()>& work);

  const std::shared_ptr<Compilation> compilation_;
  ArgumentList inputs_, outputs_;
  std::recursive_mutex mutex_;
  State state_ = State::kPreparation;
  bool is_reusable_ = false;
  std::uint64_t timeout_ns_ = 0;
  client::BindOptions options_;
  HintList hints_;
  std::unique_ptr<BoundRun> bound_;
  Outcome outcome_;
  std::optional<client::LaunchedRun> launched_;  // as long as its end was not noted
  std::thread thread_;                           // of start()
};

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_EXECUTION_H_
