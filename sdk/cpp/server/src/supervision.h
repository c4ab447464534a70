// The supervised process's side of supervision: it gets its admin key, tells that it serves and that it works, and ends in time.
#ifndef NNHAL_SERVER_SUPERVISION_H_
#define NNHAL_SERVER_SUPERVISION_H_

#include <atomic>
#include <string>

#include "nnhal/fd.h"

namespace nnhal {

constexpr int kExitStatus = 75;  // asks to be started again

class Supervision {
 public:
  // `socket` is the end that the supervisor has handed over, -1 without one. From now on SIGTERM and SIGINT end `wait`: make it
  // before there are other threads, which then leave both signals to it.
  explicit Supervision(int socket);

  bool is_supervised() const { return static_cast<bool>(socket_); }
  // What operators show; empty without a supervisor.
  const std::string& admin_key() const { return admin_key_; }

  // Tells the supervisor that the process serves.
  void ready();
  // Has `wait` return kExitStatus. May be called by any thread.
  void exit();
  // Sleeps until a signal arrives, the supervisor ends, or `exit` is called; returns the status with which the process is to end.
  int wait();

 private:
  void say(char word) const;

  Fd socket_, signals_, exits_;
  std::string admin_key_;
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_SUPERVISION_H_
