#include "runs.h"

#include "layout.h"
#include "requests.h"

namespace nnhal {
namespace {

constexpr std::int64_t kBriefNs = 200'000;
constexpr std::int64_t kLookAfterNs = 1'000'000;  // a shorter run does not look for whoever waits for it
constexpr std::int64_t kNoIdentity = -1;
constexpr std::size_t kMostCachedPools = 256;

// Takes a flag as long as it lives.
class Taken {
 public:
  Taken(std::atomic_flag& flag, const char* what) : flag_(flag) {
    if (flag_.test_and_set()) general_failure(what, " already; one at a time is allowed");
  }
  ~Taken() { flag_.clear(); }

 private:
  std::atomic_flag& flag_;
};

constexpr const char* kExecutionRuns = "the execution runs";
constexpr const char* kBurstRuns = "the burst runs an execution";

std::int64_t size_of(const std::vector<Staged>& arguments) {
  std::int64_t bytes = 0;
  for (const Staged& argument : arguments) bytes += static_cast<std::int64_t>(argument.size);
  return bytes;
}

}  // namespace

void RunResult::clear() {
  is_sufficient = true;
  shapes.clear();
  copies.clear();
  on_device_ns = in_driver_ns = started_ns = ended_ns = kNoTime;
}

void Execution::run(std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result) {
  const Taken taken(is_busy_, kExecutionRuns);
  run_held(deadline_ns, is_wanted, result, false);
}

void Execution::hold() {
  if (is_busy_.test_and_set()) general_failure(kExecutionRuns, " already; one at a time is allowed");
}

void Execution::run_held(std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result, bool is_reserved) {
  require_ahead(deadline_ns);
  result.clear();
  const std::int64_t asked_ns = measures ? now_ns() : 0;
  Scheduler& scheduler = prepared->device.scheduler;
  Run run;
  run.execution = this;
  run.owner = prepared->owner;
  run.priority = priority;
  run.is_reserved = is_reserved;
  run.deadline_ns = deadline_ns;
  run.is_wanted = is_wanted;
  scheduler.enter(run);
  run_ = &run;
  try {
    compute(result);
  } catch (...) {
    run_ = nullptr;
    scheduler.leave(run);
    throw;
  }
  run_ = nullptr;
  scheduler.leave(run);
  if (measures) result.in_driver_ns += result.started_ns - asked_ns;
}

void Execution::compute(RunResult& result) {
  const bool is_timed = measures || !staged_inputs.empty() || !staged_outputs.empty();
  const std::int64_t entered_ns = is_timed ? now_ns() : 0;
  for (Output& output : outputs) output.is_made = false;
  time_on_device_ns = -1;
  for (const Staged& argument : staged_inputs) argument.pool->read(argument.offset, argument.data.get(), argument.size);
  const std::int64_t begun_ns = is_timed ? now_ns() : 0;
  if (!staged_inputs.empty()) result.copies.push_back({false, size_of(staged_inputs), entered_ns, begun_ns});
  require(prepared->prepared->execute(*this));
  const std::int64_t computed_ns = is_timed ? now_ns() : 0;
  conclude(result);
  if (!staged_outputs.empty() && result.is_sufficient) {
    for (const Staged& argument : staged_outputs) {
      argument.pool->write(argument.offset, argument.data.get(), argument.size);
    }
    result.copies.push_back({true, size_of(staged_outputs), computed_ns, now_ns()});
  }
  for (const Copy& copy : result.copies) prepared->device.staged_bytes += copy.bytes;
  if (!measures || !result.is_sufficient) return;
  result.started_ns = entered_ns;
  result.ended_ns = now_ns();
  result.on_device_ns = time_on_device_ns >= 0 ? time_on_device_ns : computed_ns - begun_ns;
  // Modelled time replaces the driver's own, so that the time in the driver is never the shorter one.
  result.in_driver_ns = result.ended_ns - entered_ns - (computed_ns - begun_ns) + result.on_device_ns;
}

void Execution::conclude(RunResult& result) {
  bool is_any_made = false;
  for (std::size_t i = 0; i < outputs.size(); i++) {
    const Output& output = outputs[i];
    is_any_made |= output.is_made;
    const int type = output_operand(i).type();
    if (!output.is_made && output.data != nullptr && !layout::is_extension(type) &&
        !layout::is_known(type, output.dimensions)) {
      general_failure("output ", i, " has dimensions ", described(output.dimensions), ", and the driver did not say which "
                      "it has become");
    }
  }
  if (!is_any_made) return;
  for (std::size_t i = 0; i < outputs.size(); i++) {
    const Output& output = outputs[i];
    const Dimensions& dimensions = output.is_made ? output.made : output.dimensions;
    const bool fits = output.data == nullptr ||
                      layout::bytes_of(output_operand(i).type(), dimensions) <= static_cast<std::int64_t>(output.bytes);
    result.shapes.push_back({dimensions, fits});
    result.is_sufficient &= fits;
  }
}

const v1::Operand& Execution::output_operand(std::size_t output) const {
  const v1::Subgraph& main = prepared->model->main();
  return main.operands(main.output_indexes(static_cast<int>(output)));
}

bool Execution::set_dimensions(std::size_t index, const Dimensions& dimensions) {
  Output& output = outputs.at(index);
  if (!output.dimensions.empty() && !layout::fits(dimensions, output.dimensions)) {
    general_failure("output ", index, " has dimensions ", described(dimensions), ", model and request say ",
                    described(output.dimensions));
  }
  output.made = dimensions;
  output.is_made = true;
  return output.data != nullptr &&
         layout::bytes_of(output_operand(index).type(), dimensions) <= static_cast<std::int64_t>(output.bytes);
}

void Execution::check() const {
  const Run& run = *run_;
  if (run.is_cancelled) general_failure("cancelled by an operator");
  const std::int64_t now = now_ns();
  if (run.deadline_ns != kNoTime && now > run.deadline_ns) {
    throw Failure(Code::kMissedDeadlineTransient, "the deadline passed during the execution");
  }
  if (now - run.since_ns < kLookAfterNs) return;
  const auto session = prepared->session.lock();
  if (session == nullptr || session->is_over()) general_failure("the session is over");
  if (run.is_wanted != nullptr && !(*run.is_wanted)()) general_failure("its client does not wait for it any more");
}

void Execution::require_known_outputs() const {
  for (std::size_t i = 0; i < outputs.size(); i++) {
    const int type = output_operand(i).type();
    if (outputs[i].data != nullptr && !layout::is_extension(type) && !layout::is_known(type, outputs[i].dimensions)) {
      invalid_argument("output ", i, " has dimensions ", described(outputs[i].dimensions),
                       "; a fenced execution needs all of them");
    }
  }
}

bool Execution::is_brief() const {
  const std::int64_t last = last_run_ns;
  return last > 0 && last < kBriefNs && prepared->device.scheduler.has_free_worker();
}

bool Execution::add_runner(std::weak_ptr<Runner> runner) {
  const std::lock_guard<std::mutex> lock(guard_);
  if (is_released_) return false;
  runners_.push_back(std::move(runner));
  return true;
}

bool Execution::has_own_runner() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return own_runner_ != nullptr;
}

void Execution::end() {
  std::vector<std::weak_ptr<Runner>> runners;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    is_released_ = true;
    runners.swap(runners_);
    if (own_runner_ != nullptr) runners.push_back(own_runner_);
  }
  for (const auto& each : runners) {
    if (const auto runner = each.lock()) runner->let_go();
  }
}

void Burst::run(Execution& execution, std::int64_t deadline_ns, const Wanted* is_wanted, RunResult& result) {
  if (execution.prepared != prepared) invalid_argument("the execution is of another prepared model than the burst");
  const Taken taken(is_busy_, kBurstRuns);
  execution.run(deadline_ns, is_wanted, result);
}

void Burst::execute(const v1::Request& request, const std::vector<std::int64_t>& tokens,
                    const v1::ExecutionConfig& config, std::int64_t deadline_ns, const Wanted* is_wanted,
                    const DescriptorTable& descriptors, RunResult& result) {
  if (static_cast<int>(tokens.size()) != request.pools_size()) {
    invalid_argument(tokens.size(), " memory identifier tokens for ", request.pools_size(), " pools");
  }
  for (const std::int64_t token : tokens) {
    if (token < kNoIdentity) invalid_argument("memory identifier token ", token, ", expected -1 or more each");
  }
  const Taken taken(is_busy_, kBurstRuns);
  const auto open = [this, &tokens](int index, const PoolSource& source, bool writable) {
    return opened(tokens[index], source, writable);
  };
  bound_execution(prepared, request, config, descriptors, true, open)->run(deadline_ns, is_wanted, result);
}

std::shared_ptr<Pool> Burst::opened(std::int64_t token, const PoolSource& source, bool writable) {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = pools_.find(token);
  if (found != pools_.end() && (found->second->writable() || !writable)) return found->second;
  auto pool = Pool::open(source, writable);
  if (token != kNoIdentity && (pools_.size() < kMostCachedPools || found != pools_.end())) pools_[token] = pool;
  return pool;
}

void Burst::release_memory(std::int64_t token) {
  if (token < kNoIdentity) invalid_argument("memory identifier token ", token, ", expected -1 or more");
  const std::lock_guard<std::mutex> lock(guard_);
  pools_.erase(token);
}

}  // namespace nnhal
