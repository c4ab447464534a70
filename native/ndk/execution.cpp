#include "execution.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "nnhal/clock.h"

namespace nnhal::ndk {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

std::uint64_t nanoseconds(std::int64_t found) {
  return found < 0 ? kUnknownDuration : static_cast<std::uint64_t>(found);
}

// A fence that has signalled, for a run that ended while it was launched.
Fence signalled() {
  auto made = required(make_fence());
  made.first.send();
  return std::move(made.second);
}

}  // namespace

Execution::Execution(std::shared_ptr<Compilation> compilation)
    : compilation_((compilation->require_ready(), std::move(compilation))),
      inputs_(*compilation_, false),
      outputs_(*compilation_, true) {}

Execution::~Execution() { end(); }

void Execution::set_reusable(bool is_reusable) {
  const Lock lock(mutex_);
  require_preparation();
  is_reusable_ = is_reusable;
}

void Execution::pad(bool is_padded) {
  const Lock lock(mutex_);
  require_preparation();
  if (inputs_.is_any_set() || outputs_.is_any_set()) bad_state("arguments are set already");
  inputs_.pad(is_padded);
  outputs_.pad(is_padded);
}

void Execution::set_measures(bool measures) {
  const Lock lock(mutex_);
  require_preparation();
  compilation_->require_one_device("timing");
  options_.measures = measures;
}

void Execution::set_timeout(std::uint64_t duration_ns) {
  const Lock lock(mutex_);
  require_preparation();
  compilation_->require_one_device("a timeout");
  timeout_ns_ = duration_ns;
}

void Execution::set_loop_timeout(std::uint64_t duration_ns) {
  const Lock lock(mutex_);
  require_preparation();
  options_.loop_timeout_ns = static_cast<std::int64_t>(std::min(duration_ns, kMaximumLoopTimeoutNs));
}

void Execution::add_hint(const std::string& extension, std::uint16_t code, const void* data, std::size_t length) {
  const Lock lock(mutex_);
  require_preparation();
  compilation_->add_hint_to(hints_, extension, code, data, length);
  options_.hints = hints_.hints();
}

void Execution::set_input(std::int32_t index, const OperandType* type, const void* buffer, std::size_t length) {
  const Lock lock(mutex_);
  require_preparation();
  inputs_.set_buffer(index, type, const_cast<void*>(buffer), length);  // inputs are only read
}

void Execution::set_input(std::int32_t index, const OperandType* type, std::shared_ptr<Memory> memory,
                          std::size_t offset, std::size_t length) {
  const Lock lock(mutex_);
  require_preparation();
  inputs_.set_memory(index, type, std::move(memory), offset, length);
}

void Execution::set_output(std::int32_t index, const OperandType* type, void* buffer, std::size_t length) {
  const Lock lock(mutex_);
  require_preparation();
  outputs_.set_buffer(index, type, buffer, length);
}

void Execution::set_output(std::int32_t index, const OperandType* type, std::shared_ptr<Memory> memory,
                           std::size_t offset, std::size_t length) {
  const Lock lock(mutex_);
  require_preparation();
  outputs_.set_memory(index, type, std::move(memory), offset, length);
}

void Execution::compute() {
  begin();
  run(deadline_after(timeout_ns_));
  const Lock lock(mutex_);
  if (outcome_.code) refuse(outcome_.code, outcome_.text);
}

void Execution::compute_in(Burst& burst) {
  if (burst.compilation != compilation_) bad_data("the burst is of another compilation");
  if (burst.is_busy.test_and_set()) bad_state("the burst runs another execution");
  struct Release {
    std::atomic_flag& flag;
    ~Release() { flag.clear(); }
  } release{burst.is_busy};
  compute();
}

std::shared_ptr<Event> Execution::start() {
  begin();
  std::shared_ptr<Event> event;
  guarded([&] {
    auto [signal, fence] = required(make_fence());
    const std::shared_ptr<Execution> self = shared_from_this();
    event = std::make_shared<Event>(
        std::move(fence),
        [self] {
          const Lock lock(self->mutex_);
          if (self->outcome_.code) refuse(self->outcome_.code, self->outcome_.text);
        },
        /*has_sync_fence=*/false);
    if (thread_.joinable()) thread_.join();  // of the run before, which has ended
    auto shared_signal = std::make_shared<Signal>(std::move(signal));
    thread_ = std::thread([this, shared_signal, deadline_ns = deadline_after(timeout_ns_)] {
      run(deadline_ns);
      const Lock lock(mutex_);
      if (outcome_.code)
        shared_signal->fail();
      else
        shared_signal->send();
    });
  });
  return event;
}

std::shared_ptr<Event> Execution::start_after(const std::vector<std::shared_ptr<Event>>& dependencies,
                                              std::uint64_t duration_ns) {
  if (duration_ns) compilation_->require_one_device("a duration");
  begin();
  std::shared_ptr<Event> event;
  guarded([&] {
    std::vector<const Fence*> fences;
    for (const std::shared_ptr<Event>& one : dependencies) fences.push_back(&one->fence());
    BoundRun& run = bound();
    run.fill(inputs_);
    const std::int64_t duration =
        duration_ns ? static_cast<std::int64_t>(std::min<std::uint64_t>(duration_ns, INT64_MAX)) : kNoTime;
    client::LaunchedRun launched = required(
        compilation_->session()->framework().launch(run.binding(), fences, deadline_after(timeout_ns_), duration));
    Fence fence = launched.fence ? Fence(required(launched.fence->fd().duplicate())) : signalled();
    const Lock lock(mutex_);
    launched_ = std::move(launched);
    const std::shared_ptr<Execution> self = shared_from_this();
    event = std::make_shared<Event>(
        std::move(fence),
        [self] {
          const Lock held(self->mutex_);
          self->look();
          if (self->outcome_.code) refuse(self->outcome_.code, self->outcome_.text);
        },
        /*has_sync_fence=*/true, dependencies);
  });
  return event;
}

ResultCode Execution::output_dimensions(std::int32_t index, Dimensions& found) {
  const client::Operand& operand = outputs_.operand(index);
  const Lock lock(mutex_);
  look();
  const ResultCode code = outcome_.code;
  if (state_ != State::kCompleted || (code && code != kOutputInsufficientSize))
    bad_state("the dimensions of output " + std::to_string(index) +
              (state_ == State::kCompleted ? " of an execution that has failed" : " before it was computed"));
  const std::optional<Argument>& argument = outputs_.all()[static_cast<std::size_t>(index)];
  found = combine(operand.dimensions, argument->dimensions).value_or(Dimensions());
  for (const client::OutputReport& output : outcome_.report.outputs) {
    if (output.name != "output" + std::to_string(index)) continue;
    found.assign(output.dimensions.begin(), output.dimensions.end());
    if (code && !output.is_sufficient) return kOutputInsufficientSize;
  }
  return kNoError;
}

std::uint64_t Execution::duration(std::int32_t code) {
  if (code < 0 || code > 3) bad_data("duration code " + std::to_string(code) + ", expected 0 to 3");
  const Lock lock(mutex_);
  look();
  if (!options_.measures) bad_state("its time was not asked for");
  if (state_ != State::kCompleted || outcome_.code) bad_state("its time before it has succeeded");
  const client::RunReport& report = outcome_.report;
  client::Timing timing = code < 2 ? report.launched : report.fenced;
  if (!outcome_.is_launched && report.steps.size() == 1) timing = report.steps.front();
  return nanoseconds(code % 2 ? timing.in_driver_ns : timing.on_device_ns);
}

void Execution::end() {
  if (thread_.joinable()) {
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
  }
  const Lock lock(mutex_);
  if (launched_) {
    if (launched_->fence) (void)launched_->fence->wait();
    look();
  }
  // What has run well runs well again, for another execution.
  const bool is_of_use = bound_ && state_ == State::kCompleted && !outcome_.code &&
                         !bound_->binding().has_lost_run_channel() && !compilation_->session()->has_ended();
  if (is_of_use) compilation_->give_back(std::move(bound_));
  bound_.reset();
}

void Execution::look() {
  if (!launched_ || (launched_->fence && launched_->fence->state() == FenceState::kPending)) return;
  const client::LaunchedRun launched = *std::exchange(launched_, std::nullopt);
  client::Framework& framework = compilation_->session()->framework();
  Outcome outcome;
  outcome.is_launched = true;
  const Status status = framework.launched_run(launched.handle, &outcome.report);
  (void)framework.release(launched.handle);
  outcome.code = code_of(status);
  outcome.text = status.text();
  complete(std::move(outcome));
}

void Execution::require_preparation() {
  look();
  if (state_ != State::kPreparation) bad_state("the execution was computed already, or runs");
}

void Execution::require_computable() {
  look();
  if (state_ == State::kRunning) bad_state("the execution runs");
  if (state_ == State::kCompleted && !is_reusable_)
    bad_state("the execution was computed already, and is not reusable");
}

void Execution::begin() {
  const Lock lock(mutex_);
  require_computable();
  inputs_.require_complete();
  outputs_.require_complete();
  state_ = State::kRunning;
  outcome_ = {};
}

BoundRun& Execution::bound() {
  compilation_->require_sound();
  for (const RoleMemory* memory : inputs_.in_role_memory())
    if (memory->has_lost_values()) refuse(kOpFailed, "an input is in memory that holds no values");
  if (bound_ && bound_->binding().has_lost_run_channel()) bound_.reset();
  if (bound_) return *bound_;
  const std::string key = BoundRun::key_of(inputs_, outputs_, options_);
  bound_ = compilation_->take(key);
  if (!bound_) bound_ = std::make_unique<BoundRun>(*compilation_, key, inputs_, outputs_, options_);
  return *bound_;
}

void Execution::run(std::int64_t deadline_ns) {
  Outcome outcome;
  try {
    BoundRun& run = bound();
    run.fill(inputs_);
    const Status status = run.binding().run(&outcome.report, deadline_ns);
    outcome.code = code_of(status);
    outcome.text = status.text();
  } catch (const Refusal& refusal) {
    outcome = {refusal.code, refusal.text, {}};
  } catch (const std::bad_alloc&) {
    outcome = {kOutOfMemory, "out of memory", {}};
  } catch (const std::exception& error) {
    outcome = {kOpFailed, error.what(), {}};
  }
  complete(std::move(outcome));
}

void Execution::complete(Outcome outcome) {
  const Lock lock(mutex_);
  if (!outcome.code) bound_->take_out(outputs_);
  for (RoleMemory* memory : outputs_.in_role_memory()) outcome.code ? memory->lose_values() : memory->have_values();
  outcome_ = std::move(outcome);
  state_ = State::kCompleted;
}

void Execution::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const Refusal& refusal) {
    complete({refusal.code, refusal.text, {}});
    throw;
  } catch (...) {
    complete({kOpFailed, "the system has refused something", {}});
    throw;
  }
}

}  // namespace nnhal::ndk
