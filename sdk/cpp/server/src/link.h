// The server's end of links: each has a thread, and a session that ends with it. See docs/link.md.
#ifndef NNHAL_SERVER_LINK_H_
#define NNHAL_SERVER_LINK_H_

#include <string>

#include "sessions.h"

namespace nnhal {

class LinkServer {
 public:
  // Listens at a path, from which a stale socket is removed. Throws std::system_error.
  LinkServer(std::string path, Sessions& sessions);
  ~LinkServer();

  void start();
  // Stops listening and closes every link.
  void close();

 private:
  void accept_links();
  void serve(std::shared_ptr<Channel> channel, std::shared_ptr<Session> session);

  const std::string path_;
  Sessions& sessions_;
  Fd listener_;
  std::atomic<bool> closing_{false};
  std::atomic<int> links_{0};
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_LINK_H_
