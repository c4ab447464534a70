#include "stages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "log.h"

namespace nnhal {
namespace {

constexpr int kMostBells = 16;  // in each list of a stage
constexpr std::size_t kMostSockets = 1024;  // of the stages of a session
constexpr std::size_t kMostNameBytes = 200;

std::shared_ptr<Channel> channel_of(const SharedFd& descriptor, const char* what) {
  int type = 0, domain = 0;
  socklen_t size = sizeof type;
  const bool is_socket = getsockopt(descriptor->get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                         getsockopt(descriptor->get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
  if (!is_socket || domain != AF_UNIX || type != SOCK_SEQPACKET) {
    invalid_argument(what, " is no unix socket of type SOCK_SEQPACKET");
  }
  return std::make_shared<Channel>(value_of(descriptor->duplicate()));
}

v1::Ring parsed_ring(const std::string& bytes) {
  v1::Ring ring;
  if (!ring.ParseFromString(bytes)) throw ProtocolError(text(bytes.size(), " bytes that are no Ring"));
  return ring;
}

// What several rings of one run say together: each step once, in the order of their numbers.
v1::Ring merged(const std::vector<std::string>& rings) {
  v1::Ring first = parsed_ring(rings.front());
  std::map<int, v1::StepAnswer> steps;
  for (std::size_t i = 0; i < rings.size(); i++) {
    if (i > 0 && rings[i] == rings[0]) continue;
    const v1::Ring ring = i == 0 ? first : parsed_ring(rings[i]);
    for (const v1::StepAnswer& step : ring.steps()) steps[step.step()] = step;
  }
  first.clear_steps();
  for (const auto& [number, step] : steps) *first.add_steps() = step;
  return first;
}

const v1::BurstAnswer* failed_step(const v1::Ring& ring) {
  for (const v1::StepAnswer& step : ring.steps()) {
    if (step.answer().status() != v1::ERROR_STATUS_NONE) return &step.answer();
  }
  return nullptr;
}

bool have_all_rung(const std::vector<std::string>& rings) {
  return std::none_of(rings.begin(), rings.end(), [](const std::string& ring) { return ring.empty(); });
}

}  // namespace

template <class Look>
void Stage::each_socket(const Look& look) const {
  for (const Bells* bells : {&in_bells_, &end_bells_, &out_bells_, &start_bells_}) {
    for (const auto& bell : *bells) look(*bell);
  }
  for (const auto& end : {calls_, answers_}) {
    if (end != nullptr) look(*end);
  }
}

void Stage::end() {
  is_over_ = true;
  const std::lock_guard<std::mutex> lock(sockets_guard_);
  each_socket([](const Channel& channel) { channel.shutdown(); });
}

// What the thread does last: the other ends see that the chain is over.
void Stage::close_sockets() {
  end();
  const std::lock_guard<std::mutex> lock(sockets_guard_);
  for (Bells* bells : {&in_bells_, &out_bells_, &start_bells_, &end_bells_}) bells->clear();
  calls_ = answers_ = nullptr;
}

void Stage::let_go() {
  end();
  if (const auto session = session_.lock()) session->release(handle_);
}

bool Stage::await_idle(std::int64_t time_ns) {
  std::unique_lock<std::mutex> lock(guard_);
  return rested_.wait_for(lock, std::chrono::nanoseconds(time_ns), [this] { return !runs_; });
}

RunUsage Stage::usage() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return usage_;
}

// Waits until something can be heard, and does what follows. Returns false when the chain has ended.
bool Stage::exchange() {
  std::vector<pollfd> watched;
  each_socket([&watched](const Channel& channel) { watched.push_back({channel.fd(), POLLIN | POLLRDHUP, 0}); });
  if (answers_ != nullptr && calls_ == nullptr) watched.back().events = POLLRDHUP;  // calls on it are for the entry
  if (answers_ != nullptr && calls_ != nullptr) watched.pop_back();                // both are the same socket
  if (poll(watched.data(), watched.size(), -1) < 0) return errno == EINTR;
  std::size_t place = 0;
  const auto is_heard = [&watched, &place] { return (watched[place++].revents & POLLIN) != 0; };
  const auto is_gone = [](const pollfd& each) { return (each.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0; };
  for (std::size_t i = 0; i < in_bells_.size(); i++) {
    if (is_heard()) hear(in_bells_, i, begun_);
  }
  for (std::size_t i = 0; i < end_bells_.size(); i++) {
    if (is_heard()) hear(end_bells_, i, ended_);
  }
  for (std::size_t i = 0; i < out_bells_.size() + start_bells_.size(); i++) {
    const std::size_t at = place;
    if (is_heard() && !is_gone(watched[at])) throw ProtocolError("something came back on a bell");
  }
  if (calls_ != nullptr && is_heard()) take_call();
  if (calls_ == nullptr && !in_bells_.empty() && have_all_rung(begun_)) {
    v1::Ring ring = merged(begun_);
    own_ring_ = begun_.front();
    const bool was_one = begun_.size() == 1;
    for (std::string& each : begun_) each.clear();
    const int steps = ring.steps_size();
    run(ring);
    if (!was_one || ring.steps_size() != steps) own_ring_ = ring.SerializeAsString();
    pass_on();
  } else {
    answer_if_ended();
  }
  return !is_over_ && std::none_of(watched.begin(), watched.end(), is_gone);
}

void Stage::hear(const Bells& bells, std::size_t index, Rings& rings) {
  if (!bells[index]->receive(message_)) {
    is_over_ = true;
    return;
  }
  if (!rings[index].empty()) throw ProtocolError("a bell rang twice in one run");
  rings[index].assign(message_.bytes.data(), message_.size);
}

void Stage::take_call() {
  try {
    if (!calls_->receive(message_)) {
      is_over_ = true;
      return;
    }
    std::int64_t deadline_ns = kNoTime;
    try {
      deadline_ns = deadline_of_only(run_calls_, message_, execution_handle_);
    } catch (const Failure& failure) {
      calls_->send_at_once(encoded_error(failure.code, failure.what()));
      return;
    }
    v1::Ring ring;
    ring.set_run(++calls_accepted_);
    ring.set_started_ns(now_ns());
    ring.set_deadline_ns(deadline_ns);
    own_ring_ = ring.SerializeAsString();
    for (const auto& bell : start_bells_) is_over_ = is_over_ || !bell->send_at_once(own_ring_);
    run(ring);
    if (ring.steps_size() > 0) own_ring_ = ring.SerializeAsString();
    pass_on();
  } catch (const ProtocolError& error) {
    calls_->send_at_once(encoded_refusal(error.what()));
    throw;
  }
}

// Runs the execution, unless a step before has failed, and adds how it ended.
void Stage::run(v1::Ring& ring) {
  if (failed_step(ring) != nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    if (is_over_) return;
    runs_ = true;
  }
  execute(ring);
  const std::lock_guard<std::mutex> lock(guard_);
  runs_ = false;
  rested_.notify_all();
}

void Stage::execute(v1::Ring& ring) {
  const std::int64_t begun_ns = now_ns();
  const Wanted is_wanted = [this] {
    bool is_closed = is_over_;
    each_socket([&is_closed](const Channel& channel) { is_closed |= channel.closed(); });
    return !is_closed;
  };
  try {
    std::int64_t cancelled = 0;
    if (cancelled_.size() != 0) {
      cancelled = __atomic_load_n(reinterpret_cast<const std::int64_t*>(cancelled_.data()), __ATOMIC_ACQUIRE);
    }
    if (cancelled_.size() != 0 && cancelled == ring.run()) general_failure("the run was cancelled");
    if (ring.deadline_ns() > kNoTime && ring.deadline_ns() < begun_ns && ring.started_ns() <= ring.deadline_ns()) {
      throw Failure(Code::kMissedDeadlineTransient, "the deadline passed before the step began");
    }
    execution_->run(ring.deadline_ns(), &is_wanted, result_);
    if (!result_.is_sufficient) general_failure("an output did not fit its memory");
    execution_->last_run_ns = now_ns() - begun_ns;
    if (!execution_->measures) return;
    v1::StepAnswer& step = *ring.add_steps();
    step.set_step(step_);
    *step.mutable_answer() = answer_of(result_);
  } catch (const std::exception& error) {
    const Failure failure = told(error, "a run of a stage failed");
    v1::StepAnswer& step = *ring.add_steps();
    step.set_step(step_);
    *step.mutable_answer() = error_answer(failure.code, name_ + ": " + failure.what());
  }
}

void Stage::pass_on() {
  // A caller that sends its next call before the answer ends the chain.
  pollfd early{calls_ != nullptr ? calls_->fd() : -1, POLLIN, 0};
  if (calls_ != nullptr && poll(&early, 1, 0) > 0 && !calls_->closed()) {
    throw ProtocolError("the caller did not wait for the answer");
  }
  for (const auto& bell : out_bells_) is_over_ = is_over_ || !bell->send_at_once(own_ring_);
  has_ended_ = true;
  answer_if_ended();
}

// Answers the call when this stage and all whose ends it waits for have rung.
void Stage::answer_if_ended() {
  if (answers_ == nullptr || !has_ended_ || !have_all_rung(ended_)) return;
  ended_.push_back(own_ring_);
  const v1::Ring ring = merged(ended_);
  ended_.pop_back();
  for (std::string& each : ended_) each.clear();
  has_ended_ = false;
  const v1::BurstAnswer* failed = failed_step(ring);
  {
    const std::lock_guard<std::mutex> lock(guard_);
    usage_.add(failed != nullptr, now_ns() - ring.started_ns());
  }
  std::string encoded = plain_answer();
  if (ring.steps_size() > 0) {
    v1::BurstAnswer answer = failed != nullptr ? error_answer(static_cast<Code>(failed->status()), failed->message())
                                               : answer_of(RunResult{});
    *answer.mutable_steps() = ring.steps();
    encoded = answer.SerializeAsString();
  }
  is_over_ = is_over_ || !answers_->send_at_once(encoded);
}

void Stage::check_sockets() const {
  const std::string counts = text(in_bells_.size(), " in-bells, ", out_bells_.size(), " out-bells, ", start_bells_.size(),
                                  " start bells, ", end_bells_.size(), " end bells");
  if (in_bells_.empty() != (calls_ != nullptr) || out_bells_.empty() != (answers_ != nullptr)) {
    invalid_argument("a stage with ", counts, ", ", calls_ ? "a" : "no", " socket of calls and ", answers_ ? "a" : "no",
                     " socket of answers, expected either in-bells or calls, and either out-bells or answers");
  }
  if ((!start_bells_.empty() && calls_ == nullptr) || (!end_bells_.empty() && answers_ == nullptr)) {
    invalid_argument("start bells are the entry's, which has the calls; end bells the exit's, which answers");
  }
}

std::int64_t wire_step(const std::shared_ptr<Session>& session, const v1::WireStepRequest& request) {
  std::vector<std::uint64_t> numbers;
  const auto lists = {&request.in_bell_descriptor_ids(), &request.out_bell_descriptor_ids(),
                       &request.start_bell_descriptor_ids(), &request.end_bell_descriptor_ids()};
  for (const auto* list : lists) numbers.insert(numbers.end(), list->begin(), list->end());
  for (const std::uint64_t single :
       {request.calls_descriptor_id(), request.answers_descriptor_id(), request.cancelled_descriptor_id()}) {
    if (single != 0) numbers.push_back(single);
  }
  const auto claimed = session->descriptors.claim(numbers);
  const auto execution = session->get<Execution>(request.execution(), "execution");
  execution->require_known_outputs();
  if (request.step() < 0 || request.name().size() > kMostNameBytes) {
    invalid_argument("step ", request.step(), " with a name of ", request.name().size(),
                     " bytes, expected a step of 0 or more and at most ", kMostNameBytes, " characters");
  }
  for (const auto* list : lists) {
    if (list->size() > kMostBells) invalid_argument("a stage with ", list->size(), " bells, expected at most ", kMostBells, " of each");
  }
  const auto bells = [&claimed](const auto& list, const char* what) {
    Stage::Bells found;
    for (const std::uint64_t number : list) found.push_back(channel_of(claimed.at(number), what));
    return found;
  };
  const auto stage = std::make_shared<Stage>();
  stage->session_ = session;
  stage->execution_ = execution;
  stage->execution_handle_ = request.execution();
  stage->step_ = request.step();
  stage->name_ = request.name();
  stage->in_bells_ = bells(request.in_bell_descriptor_ids(), "an in-bell");
  stage->out_bells_ = bells(request.out_bell_descriptor_ids(), "an out-bell");
  stage->start_bells_ = bells(request.start_bell_descriptor_ids(), "a start bell");
  stage->end_bells_ = bells(request.end_bell_descriptor_ids(), "an end bell");
  if (request.calls_descriptor_id() != 0) {
    stage->calls_ = channel_of(claimed.at(request.calls_descriptor_id()), "the socket of calls");
  }
  if (request.answers_descriptor_id() != 0) {
    stage->answers_ = channel_of(claimed.at(request.answers_descriptor_id()), "the socket of answers");
  }
  stage->check_sockets();
  if (request.cancelled_descriptor_id() != 0) {
    const SharedFd& memory = claimed.at(request.cancelled_descriptor_id());
    require(require_ashmem(*memory, sizeof(std::int64_t), "the number of the cancelled run"));
    stage->cancelled_ = value_of(Mapping::map(*memory, sizeof(std::int64_t), Mapping::Access::kRead));
  }
  stage->begun_.resize(stage->in_bells_.size());
  stage->ended_.resize(stage->end_bells_.size());
  stage->sockets_ = stage->in_bells_.size() + stage->end_bells_.size() +
                    2 * (stage->out_bells_.size() + stage->start_bells_.size()) + (stage->calls_ != nullptr) +
                    (stage->answers_ != nullptr);
  std::size_t held = stage->sockets();
  for (const auto& [handle, other] : session->all<Stage>()) held += other->sockets();
  if (held > kMostSockets) {
    exhausted("the stages of the session would have ", held, " sockets, which are too many: at most ", kMostSockets);
  }
  stage->handle_ = session->add(stage);
  if (!execution->add_runner(stage)) {
    session->release(stage->handle_);
    invalid_argument("execution ", request.execution(), " does not exist in this session, or was released");
  }
  // One of its sockets stands for all in the session's eyes: each of them ends the chain.
  const auto watched = stage->calls_ != nullptr ? stage->calls_ : stage->in_bells_.front();
  try {
    session->serve(watched, "chain", [stage] { return stage->exchange(); }, [stage] { stage->close_sockets(); });
  } catch (...) {
    session->release(stage->handle_);
    throw;
  }
  return stage->handle_;
}

}  // namespace nnhal
