// The link: a session with a process, and the way of descriptors to and from it (docs/reference/protocol.md).
#ifndef NNHAL_CLIENT_LINK_H_
#define NNHAL_CLIENT_LINK_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../fd.h"
#include "../protobuf.h"
#include "../status.h"
#include "../waiting.h"

namespace nnhal::client {

// An open link is a session: whatever is made in it is released when it closes. Safe to use from several threads.
class Link {
 public:
  struct Options {
    std::string client_name = "nnhal in C++";  // for logs and operators
    std::int64_t answer_ns = 30'000'000'000;   // how long an answer may take
    std::vector<uid_t> server_uids;            // users besides this one and root whose processes are trusted
  };

  static Result<std::unique_ptr<Link>> open(const std::string& path, const Options& options);

  const std::string& path() const { return path_; }
  // Whether the answers on channels of this session carry the numbers of their calls.
  bool numbers_answers() const { return numbers_answers_; }
  // Hands a descriptor over, and returns the id by which messages name it. It stays open there until it is dropped.
  Result<std::uint64_t> put(const Fd& descriptor);
  // Hands any number of them over.
  Result<std::vector<std::uint64_t>> put(const std::vector<const Fd*>& descriptors);
  // Fetches a descriptor that the answer of a call has named. Each can be taken once.
  Result<Fd> take(std::uint64_t id);
  // The same for a channel. GENERAL_FAILURE if what has come is none.
  Result<Fd> take_channel(std::uint64_t id);
  // Opens a channel for calls. GENERAL_FAILURE if the process serves none over its link, as devices do not.
  Result<Fd> open_calls();
  // Has the process close descriptors that were put, or were not taken. What was mapped through them stays mapped.
  Status drop(const std::vector<std::uint64_t>& ids);
  // Whether the process has ended the link, or has died.
  bool has_ended() const;
  // To be polled with POLLRDHUP, which comes when the process ends the link or dies. Not to be read.
  const Fd& fd() const { return connection_; }

 private:
  Link(Fd connection, std::string path, std::int64_t answer_ns)
      : connection_(std::move(connection)), path_(std::move(path)), answer_ns_(answer_ns) {}
  // Sends a request and returns the field of that number in the reply; `received` gets the descriptors that came with
  // it.
  Result<std::string> exchange(const Message& request, int expected, const std::vector<int>& sent = {},
                               std::vector<Fd>* received = nullptr);

  // Sends a request and returns the descriptor that comes with the reply; `what` names that in messages.
  Result<Fd> fetch(int field, const Message& request, const std::string& what);
  Result<Fd> require_channel(Result<Fd> taken, const std::string& what) const;

  std::mutex mutex_;
  Fd connection_;
  const std::string path_;
  const std::int64_t answer_ns_;
  std::size_t per_message_ = 16;
  bool numbers_answers_ = false;
  bool serves_calls_ = false;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_LINK_H_
