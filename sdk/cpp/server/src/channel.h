// The server's end of a channel: a SOCK_SEQPACKET socket with one message per datagram.
#ifndef NNHAL_SERVER_CHANNEL_H_
#define NNHAL_SERVER_CHANNEL_H_

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nnhal/datagram.h"

namespace nnhal {

// A datagram that was received, whose room is used again.
struct Message {
  std::vector<char> bytes = std::vector<char>(kMaxDatagramBytes);
  std::size_t size = 0;
  std::vector<Fd> descriptors;
};

// The other side has broken the protocol: its channel ends.
class ProtocolError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This process had no room for the descriptors that came with a message.
class DescriptorsLost : public std::runtime_error {
 public:
  DescriptorsLost() : std::runtime_error("the process has no descriptor left for those that came with the message") {}
};

// One thread may send while another receives.
class Channel {
 public:
  explicit Channel(Fd socket, std::uint64_t other_end = 0) : socket_(std::move(socket)), other_end_(other_end) {}
  ~Channel();

  // A channel, and the end of it that is for the client. Throws RESOURCE_EXHAUSTED_TRANSIENT.
  static std::pair<std::shared_ptr<Channel>, Fd> make();

  // Waits for a datagram; returns false at the end. Throws ProtocolError if it is empty or too long, and
  // DescriptorsLost. Descriptors are closed unless they are to be kept. It looks for `spin_ns` before it sleeps.
  bool receive(Message& into, bool keeps_descriptors = false) const;

  // Returns false if the other side is gone.
  bool send(const std::string& message, const int* descriptors = nullptr, std::size_t count = 0) const;
  // Like send, but one whose queue is full counts as gone.
  bool send_at_once(const std::string& message) const;

  int fd() const { return socket_.get(); }
  // Whether the other side has closed the channel, or its own direction.
  bool hung_up() const;
  // Whether the other side has closed the channel.
  bool closed() const;
  // Ends both directions and wakes who waits on either end.
  void shutdown() const;

  // How long receivers look for the next message before they sleep; set it before there are any.
  static std::int64_t spin_ns;

 private:
  Fd socket_;
  std::uint64_t other_end_;
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_CHANNEL_H_
