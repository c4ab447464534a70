// A channel: one call out and one answer in, over and over (docs/reference/protocol.md).
#ifndef NNHAL_CLIENT_CHANNEL_H_
#define NNHAL_CLIENT_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "../fd.h"
#include "../protobuf.h"
#include "../status.h"
#include "../waiting.h"

namespace nnhal::client {

// One call at a time; a second thread waits. An answer that cannot be that of its call ends the channel, since every
// later call would take the answer of the one before it: nothing may be there to be read before a call is sent, and if
// answers are numbered, the answer has the number of its call. After a deadline, an interrupt or such an answer all
// calls fail with DEVICE_UNAVAILABLE. Memory of a call that has not been answered may still be written, until the
// process says otherwise.
class Channel {
 public:
  struct Answer {
    std::string bytes;
    std::vector<Fd> descriptors;
  };

  // Takes over a socket that was taken from the link. `place` names the channel in messages.
  Channel(Fd socket, std::string place, bool is_numbered)
      : socket_(std::move(socket)), place_(std::move(place)), is_numbered_(is_numbered) {}

  // Sends `call`, with descriptors, and waits for its answer.
  Result<Answer> exchange(Message call, const std::vector<int>& descriptors = {}, const Patience& patience = {});
  // Has the process end what the call under way asks for, from any thread: its answer still comes, and is the last one.
  void end_sending();
  // Whether the channel has ended. What a process that has died has answered before may still be there to be read.
  bool has_ended() const;
  const std::string& place() const { return place_; }
  // Becomes readable when an answer comes.
  const Fd& fd() const { return socket_; }

 private:
  Status end(const Status& reason);
  Status require_silence();

  const Fd socket_;
  const std::string place_;
  const bool is_numbered_;
  std::mutex mutex_;
  std::atomic<bool> has_ended_{false};
  std::uint64_t last_number_ = 0;
  std::string room_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_CHANNEL_H_
