// Stages of wired chains: each is one execution, which runs when the bells before it have rung, and rings those after it.
//
// See proto/nnhal/v1/chain.proto. A stage has a thread, which hears its sockets and runs its execution.
#ifndef NNHAL_SERVER_STAGES_H_
#define NNHAL_SERVER_STAGES_H_

#include <condition_variable>

#include "answers.h"
#include "channels.h"
#include "nnhal/v1/chain.pb.h"

namespace nnhal {

class Stage : public Object, public Runner {
 public:
  ~Stage() override = default;

  const char* kind() const override { return "stage"; }
  // Shuts all sockets down, which ends the chain; harmless when repeated.
  void end() override;
  void let_go() override;

  // Waits for the execution to end, after `end`; returns whether it has, and thus will not run again.
  bool await_idle(std::int64_t time_ns);
  RunUsage usage() const;
  // How many it was given, for the limit of its session: one that it rings counts twice, as in nnhal's own devices.
  std::size_t sockets() const { return sockets_; }

 private:
  friend std::int64_t wire_step(const std::shared_ptr<Session>& session, const v1::WireStepRequest& request);

  using Bells = std::vector<std::shared_ptr<Channel>>;
  using Rings = std::vector<std::string>;  // one for each bell, empty until it has rung

  void check_sockets() const;
  void close_sockets();
  bool exchange();
  void hear(const Bells& bells, std::size_t index, Rings& rings);
  void take_call();
  void run(v1::Ring& ring);
  void execute(v1::Ring& ring);
  void pass_on();
  void answer_if_ended();
  template <class Look>
  void each_socket(const Look& look) const;

  std::weak_ptr<Session> session_;
  std::shared_ptr<Execution> execution_;
  std::int64_t execution_handle_ = 0, handle_ = 0;
  int step_ = 0;
  std::string name_;
  Bells in_bells_, out_bells_, start_bells_, end_bells_;
  std::shared_ptr<Channel> calls_, answers_;
  std::size_t sockets_ = 0;
  std::mutex sockets_guard_;  // between the thread that closes them and others, which end the stage
  Mapping cancelled_;  // begins with the number of the last run that was cancelled

  std::atomic<bool> is_over_{false};
  mutable std::mutex guard_;
  std::condition_variable rested_;
  bool runs_ = false;
  RunUsage usage_;

  // The thread's own.
  std::int64_t calls_accepted_ = 0;
  Rings begun_, ended_;
  bool has_ended_ = false;  // the execution, in the run under way
  std::string own_ring_;
  Message message_;
  RunCalls run_calls_;
  RunResult result_;
};

// Makes an execution a stage, serves it, and returns its handle. The descriptors are taken from the session in any case.
// Throws INVALID_ARGUMENT if something does not make a stage, RESOURCE_EXHAUSTED_TRANSIENT if the session has too many sockets.
std::int64_t wire_step(const std::shared_ptr<Session>& session, const v1::WireStepRequest& request);

}  // namespace nnhal

#endif  // NNHAL_SERVER_STAGES_H_
