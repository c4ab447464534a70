#include "channels.h"

#include "answers.h"
#include "launches.h"
#include "nnhal/v1/execution.pb.h"

namespace nnhal {
namespace {

// Answers the calls on a burst's channel, one after the other.
class BurstServer {
 public:
  BurstServer(std::shared_ptr<Burst> burst, Session& session, std::shared_ptr<Channel> channel)
      : burst_(std::move(burst)), session_(session), channel_(std::move(channel)) {}

  // Returns false at the end. Throws ProtocolError.
  bool exchange() {
    try {
      if (!channel_->receive(message_)) return false;
      return channel_->send(answer());
    } catch (const ProtocolError& error) {
      channel_->send(encoded_refusal(error.what()));
      throw;
    }
  }

 private:
  std::string answer() {
    try {
      std::int64_t execution = 0, deadline_ns = kNoTime;
      if (calls_.read(message_, execution, deadline_ns)) {
        burst_->run(*session_.get<Execution>(execution, "execution"), deadline_ns, &is_wanted_, result_);
      } else {
        other(calls_.other());
      }
      return result_.is_plain() ? plain_answer() : encoded_answer(result_);
    } catch (const ProtocolError&) {
      throw;
    } catch (const std::exception& error) {
      const Failure failure = told(error, "a call on a burst failed");
      return encoded_error(failure.code, failure.what());
    }
  }

  void other(const v1::BurstCall& call) {
    result_.clear();
    if (call.has_release_memory_resource()) {
      burst_->release_memory(call.release_memory_resource().memory_identifier_token());
    } else if (call.has_execute()) {
      v1::ExecutionConfig config;
      config.set_measure_timing(call.execute().measure_timing());
      if (call.execute().has_loop_timeout_duration_ns()) {
        config.set_loop_timeout_duration_ns(call.execute().loop_timeout_duration_ns());
      }
      execute(call.execute(), config);
    } else {
      execute(call.execute_with_config(), call.execute_with_config().config());
    }
  }

  template <class Call>
  void execute(const Call& call, const v1::ExecutionConfig& config) {
    const auto& tokens = call.memory_identifier_tokens();
    burst_->execute(call.request(), {tokens.begin(), tokens.end()}, config, deadline_of(call), &is_wanted_,
                    session_.descriptors, result_);
  }

  const std::shared_ptr<Burst> burst_;
  Session& session_;
  const std::shared_ptr<Channel> channel_;
  const Wanted is_wanted_ = [this] { return !channel_->closed(); };
  Message message_;
  RunCalls calls_;
  RunResult result_;
};

// Answers the calls on a launch channel. Others are answered while an execution runs.
class LaunchServer {
 public:
  LaunchServer(std::shared_ptr<Session> session, std::shared_ptr<Channel> channel)
      : session_(std::move(session)), channel_(std::move(channel)) {}

  bool exchange() {
    try {
      if (!channel_->receive(message_, true)) return false;
      if (!call_.ParseFromArray(message_.bytes.data(), static_cast<int>(message_.size))) {
        throw ProtocolError(text(message_.size, " bytes that are no LaunchCall"));
      }
      if (call_.call_case() == v1::LaunchCall::CALL_NOT_SET) {
        throw ProtocolError("a LaunchCall without a call, expected launch, info or sync");
      }
      return answer();
    } catch (const ProtocolError& error) {
      refuse(Code::kInvalidArgument, text(error.what(), "; the channel ends with this answer"));
      throw;
    } catch (const std::exception& error) {
      const Failure failure = told(error, "a call on a launch channel failed");
      return refuse(failure.code, failure.what());
    }
  }

 private:
  bool answer() {
    if (!call_.has_info()) return launch();
    message_.descriptors.clear();
    const auto execution = execution_of(call_.info().execution());
    std::shared_ptr<Object> launched;
    {
      const std::lock_guard<std::mutex> lock(execution->launched_guard);
      launched = execution->launched;
    }
    if (launched == nullptr) {
      general_failure("execution ", call_.info().execution(), " was not launched on a launch channel");
    }
    v1::LaunchAnswer answer;
    *answer.mutable_info() = std::static_pointer_cast<LaunchCallback>(launched)->info();
    return channel_->send(answer.SerializeAsString());
  }

  // Answers a launch or a sync, and has it run.
  bool launch() {
    std::vector<AwaitedFence> fences;
    for (Fd& descriptor : message_.descriptors) {
      fences.push_back(awaited_fence(std::move(descriptor), text("fence ", fences.size(), " of the call")));
    }
    message_.descriptors.clear();
    const bool is_sync = call_.has_sync();
    const auto execution = is_sync ? nullptr : execution_of(call_.launch().execution());
    const auto launch = std::make_shared<Launch>(session_, execution, std::move(fences),
                                                 is_sync ? kNoTime : deadline_of(call_.launch()),
                                                 is_sync ? kNoTime : duration_of(call_.launch()));
    const Fd fence = launch->make_fence();
    if (execution != nullptr) {
      const std::lock_guard<std::mutex> lock(execution->launched_guard);
      execution->launched = launch->callback;
    }
    v1::LaunchAnswer answer;
    answer.mutable_launch();
    const int number = fence.get();
    const bool is_there = channel_->send(answer.SerializeAsString(), &number, 1);
    if (launch->is_brief()) {
      launch->run();
    } else {
      start(launch);
    }
    return is_there;
  }

  std::shared_ptr<Execution> execution_of(std::int64_t handle) const {
    return session_->get<Execution>(handle, "execution");
  }

  bool refuse(Code code, const std::string& message) {
    message_.descriptors.clear();
    v1::LaunchAnswer answer;
    answer.mutable_refused()->set_status(wire_status(code));
    answer.mutable_refused()->set_message(message.substr(0, 2000));
    return channel_->send(answer.SerializeAsString());
  }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Channel> channel_;
  Message message_;
  v1::LaunchCall call_;
};

// Owned by the session while the channel is open, so that operators see it.
class LaunchChannel : public Object {
 public:
  const char* kind() const override { return "launch channel"; }
};

}  // namespace

std::uint64_t serve_burst(std::shared_ptr<Burst> burst, std::int64_t handle, const std::shared_ptr<Session>& session) {
  auto [channel, theirs] = Channel::make();
  const std::uint64_t number = session->descriptors.offer(std::move(theirs), handle);
  const auto server = std::make_shared<BurstServer>(std::move(burst), *session, channel);
  session->serve(channel, "burst", [server] { return server->exchange(); }, [session, handle] { session->release(handle); });
  return number;
}

std::uint64_t serve_launches(const std::shared_ptr<Session>& session) {
  auto [channel, theirs] = Channel::make();
  const std::int64_t handle = session->add(std::make_shared<LaunchChannel>());
  try {
    const std::uint64_t number = session->descriptors.offer(std::move(theirs), handle);
    const auto server = std::make_shared<LaunchServer>(session, channel);
    session->serve(channel, "launch channel", [server] { return server->exchange(); },
                   [session, handle] { session->release(handle); });
    return number;
  } catch (...) {
    session->release(handle);
    throw;
  }
}

std::uint64_t RunChannel::open(const std::shared_ptr<Execution>& execution, const std::shared_ptr<Session>& session) {
  auto [channel, theirs] = Channel::make();
  end();
  session->descriptors.withdraw(handle_);
  const std::uint64_t number = session->descriptors.offer(std::move(theirs), handle_);
  {
    const std::lock_guard<std::mutex> lock(guard_);
    if (channel_ != nullptr) channel_->shutdown();  // opened by another thread meanwhile
    channel_ = channel;
  }
  if (execution->is_released()) channel->shutdown();
  struct State {
    Message message;
    RunCalls calls;
    RunResult result;
    Wanted is_wanted;
  };
  const auto state = std::make_shared<State>();
  state->is_wanted = [this, channel = channel] { return is_current(channel) && !channel->closed(); };
  const auto self = run_channel_of(*session, handle_);  // stays as long as it is served
  session->serve(channel, "run channel", [self, execution, channel = channel, state] {
    return self->answer(*execution, channel, state->is_wanted, state->message, state->calls, state->result);
  });
  return number;
}

bool RunChannel::answer(Execution& execution, const std::shared_ptr<Channel>& channel, const Wanted& is_wanted,
                        Message& message, RunCalls& calls, RunResult& result) {
  try {
    if (!channel->receive(message)) return false;
    const std::int64_t started_ns = now_ns();
    bool has_failed = false;
    std::string encoded;
    try {
      const std::int64_t deadline_ns = deadline_of_only(calls, message, handle_);
      // A call that was sent before the channel was closed may still be read after it.
      if (!is_current(channel)) return false;
      execution.run(deadline_ns, &is_wanted, result);
      if (!result.is_plain()) encoded = encoded_answer(result);
    } catch (const ProtocolError&) {
      throw;
    } catch (const std::exception& error) {
      const Failure failure = told(error, "a run on a run channel failed");
      encoded = encoded_error(failure.code, failure.what());
      has_failed = true;
    }
    {
      const std::lock_guard<std::mutex> lock(guard_);
      usage_.add(has_failed, now_ns() - started_ns);
    }
    return channel->send(encoded.empty() ? plain_answer() : encoded);
  } catch (const ProtocolError& error) {
    channel->send(encoded_refusal(error.what()));
    throw;
  }
}

bool RunChannel::is_current(const std::shared_ptr<Channel>& channel) const {
  const std::lock_guard<std::mutex> lock(guard_);
  return channel_ == channel;
}

void RunChannel::end() {
  const std::lock_guard<std::mutex> lock(guard_);
  if (channel_ != nullptr) channel_->shutdown();
  channel_ = nullptr;
}

RunUsage RunChannel::usage() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return usage_;
}

std::shared_ptr<RunChannel> run_channel_of(const Session& session, std::int64_t handle) {
  return session.get<Execution>(handle, "execution")->only_runner<RunChannel>([handle] {
    return std::make_shared<RunChannel>(handle);
  });
}

}  // namespace nnhal
