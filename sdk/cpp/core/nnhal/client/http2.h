// The client's side of HTTP/2 (RFC 9113) as far as gRPC needs it: one connection, one stream at a time.
#ifndef NNHAL_CLIENT_HTTP2_H_
#define NNHAL_CLIENT_HTTP2_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "../fd.h"
#include "../hpack.h"
#include "../status.h"
#include "../waiting.h"

namespace nnhal::client {

// A header's value; the last one if there are several, empty if there is none.
std::string header_of(const Headers& headers, std::string_view name);

// Not safe to use from several threads: rpc.h has a connection for each call that is under way.
class Http2Connection {
 public:
  struct Answer {
    Headers headers;  // those that came before the body and those that came after it
    std::string body;
  };
  // Takes over a connected stream. `place` names the process in messages.
  Http2Connection(Fd connection, std::string place);

  // Sends a request and waits for the whole answer. After a failure, or a deadline, or an interrupt, the connection is
  // closed, by which the process learns that the call is cancelled.
  Result<Answer> exchange(const Headers& headers, std::string_view body, const Patience& patience);

  // Whether it can take another request. Handles what has come since the last one: the process may have gone, or going.
  bool is_usable();
  // Whether the last exchange failed before the process has looked at the request: it may be sent again elsewhere.
  bool was_not_processed() const { return was_not_processed_; }

 private:
  Status write(std::string_view bytes, const Patience& patience);
  Status send_frame(int type, int flags, std::uint32_t stream, std::string_view payload, const Patience& patience);
  Status send_headers(const Headers& headers, const Patience& patience);
  Status send_body(std::string_view body, const Patience& patience);
  Status run(const Headers& headers, std::string_view body, const Patience& patience);
  // Receives what there is, after waiting for it; handles all frames that are complete.
  Status receive(const Patience& patience);
  Status handle_frames(const Patience& patience);
  Status handle(int type, int flags, std::uint32_t stream, std::string_view payload, const Patience& patience);
  Status handle_settings(int flags, std::string_view payload, const Patience& patience);
  Status handle_window(std::uint32_t stream, std::string_view payload);
  Status handle_going(std::string_view payload);
  Status handle_reset(std::uint32_t stream, std::string_view payload);
  Status handle_headers(int type, int flags, std::uint32_t stream, std::string_view payload);
  Status handle_data(int flags, std::uint32_t stream, std::string_view payload, const Patience& patience);
  Status broken(const std::string& what) const;

  Fd connection_;
  std::string place_;
  std::string received_;  // bytes that are not a whole frame yet
  bool has_begun_ = false;
  bool is_going_ = false;      // the process takes no further requests
  bool cannot_write_ = false;  // it has closed its side
  bool was_not_processed_ = false;
  std::uint32_t stream_ = 0;                                                  // the request's; 1, 3, 5 and so on
  std::int64_t initial_window_ = 65535, window_ = 65535, stream_window_ = 0;  // bytes that may be sent
  std::uint32_t block_stream_ = 0;  // the stream whose headers go on in the next frame; 0 for none
  bool block_ends_stream_ = false;
  std::string block_;
  bool has_ended_ = false;
  Answer answer_;
};

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_HTTP2_H_
