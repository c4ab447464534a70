#include "nnhal/client/http2.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace nnhal::client {
namespace {

enum Type { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
enum Flag { kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8, kHasPriority = 32 };
enum Setting { kHeaderTableSize = 1, kEnablePush = 2, kInitialWindowSize = 4 };
enum Error { kCancel = 8, kRefusedStream = 7 };

constexpr std::size_t kHeadBytes = 9;
// Neither side may send longer frames unless the other has said so; this one does not.
constexpr std::size_t kMaxFrameBytes = 16384;
constexpr std::int64_t kMaxWindow = 0x7fffffff;
// Far more than anything that a process answers: what is longer is no answer.
constexpr std::size_t kMaxBlockBytes = 256 * 1024;
constexpr std::size_t kMaxBodyBytes = 256 * 1024 * 1024;

void append_big_endian(std::string& bytes, std::uint64_t value, int count) {
  while (count--) bytes += static_cast<char>(value >> 8 * count);
}

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// Takes padding and priority off. False if there is less than that.
bool strip(int type, int flags, std::string_view& payload) {
  std::size_t padding = 0;
  if (flags & kPadded) {
    if (payload.empty()) return false;
    padding = static_cast<unsigned char>(payload[0]);
    payload.remove_prefix(1);
  }
  const std::size_t priority = type == kHeaders && flags & kHasPriority ? 5 : 0;
  if (padding + priority > payload.size()) return false;
  payload.remove_prefix(priority);
  payload.remove_suffix(padding);
  return true;
}

}  // namespace

std::string header_of(const Headers& headers, std::string_view name) {
  for (auto header = headers.rbegin(); header != headers.rend(); ++header)
    if (header->first == name) return header->second;
  return "";
}

Http2Connection::Http2Connection(Fd connection, std::string place)
    : connection_(std::move(connection)), place_(std::move(place)) {}

Status Http2Connection::broken(const std::string& what) const { return {Code::kGeneralFailure, place_ + " " + what}; }

Result<Http2Connection::Answer> Http2Connection::exchange(const Headers& headers, std::string_view body,
                                                          const Patience& patience) {
  was_not_processed_ = has_ended_ = false;
  answer_ = {};
  stream_ = stream_ ? stream_ + 2 : 1;
  stream_window_ = initial_window_;
  const Status status = run(headers, body, patience);
  if (!status.ok()) {
    // A courtesy: closing says the same.
    std::string code;
    append_big_endian(code, kCancel, 4);
    if (connection_ && !is_going_) (void)send_frame(kReset, 0, stream_, code, {now_ns()});
    connection_.reset();
    return status;
  }
  return std::move(answer_);
}

bool Http2Connection::is_usable() {
  if (!connection_ || is_going_ || stream_ > kMaxWindow - 2) return false;
  while (wait_readable(connection_.get(), {now_ns()}).ok()) {
    if (!receive({now_ns()}).ok() || is_going_) {
      connection_.reset();
      return false;
    }
  }
  return true;
}

Status Http2Connection::run(const Headers& headers, std::string_view body, const Patience& patience) {
  if (!has_begun_) {
    has_begun_ = true;
    std::string begin = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings;
    for (const int setting : {kHeaderTableSize, kEnablePush}) {  // both 0
      append_big_endian(settings, static_cast<std::uint64_t>(setting), 2);
      append_big_endian(settings, 0, 4);
    }
    if (Status status = write(begin, patience); !status.ok()) return status;
    if (Status status = send_frame(kSettings, 0, 0, settings, patience); !status.ok()) return status;
  }
  if (Status status = send_headers(headers, patience); !status.ok()) return status;
  if (Status status = send_body(body, patience); !status.ok()) return status;
  while (!has_ended_)
    if (Status status = receive(patience); !status.ok()) return status;
  return {};
}

// A process that has gone may have answered before: receiving goes on to the end, which says so.
Status Http2Connection::write(std::string_view bytes, const Patience& patience) {
  while (!bytes.empty() && !cannot_write_) {
    const ssize_t sent = ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (Status status = wait_writable(connection_.get(), patience); !status.ok()) return status.in(place_);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      cannot_write_ = is_going_ = true;
    } else if (errno != EINTR) {
      return Status::of_errno(place_, errno);
    }
  }
  return {};
}

Status Http2Connection::send_frame(int type, int flags, std::uint32_t stream, std::string_view payload,
                                   const Patience& patience) {
  std::string frame;
  frame.reserve(kHeadBytes + payload.size());
  append_big_endian(frame, payload.size(), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  append_big_endian(frame, stream, 4);
  frame += payload;
  return write(frame, patience);
}

Status Http2Connection::send_headers(const Headers& headers, const Patience& patience) {
  std::string block;
  for (const auto& [name, value] : headers) append_header(block, name, value);
  std::string_view rest = block;
  for (int type = kHeaders;; type = kContinuation) {
    const std::string_view part = rest.substr(0, kMaxFrameBytes);
    rest.remove_prefix(part.size());
    const Status status = send_frame(type, rest.empty() ? kEndHeaders : 0, stream_, part, patience);
    if (!status.ok() || rest.empty()) return status;
  }
}

// The process says how many bytes it takes, of the stream and in all.
Status Http2Connection::send_body(std::string_view body, const Patience& patience) {
  do {
    while (!body.empty() && std::min(window_, stream_window_) <= 0 && !has_ended_)
      if (Status status = receive(patience); !status.ok()) return status;
    if (has_ended_) {  // it has answered without the rest
      std::string code;
      append_big_endian(code, kCancel, 4);
      return send_frame(kReset, 0, stream_, code, patience);
    }
    const auto room = static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(window_, stream_window_)));
    const std::string_view part = body.substr(0, std::min(kMaxFrameBytes, room));
    body.remove_prefix(part.size());
    window_ -= static_cast<std::int64_t>(part.size());
    stream_window_ -= static_cast<std::int64_t>(part.size());
    const Status status = send_frame(kData, body.empty() ? kEndStream : 0, stream_, part, patience);
    if (!status.ok()) return status;
  } while (!body.empty());
  return {};
}

Status Http2Connection::receive(const Patience& patience) {
  char room[kMaxFrameBytes + kHeadBytes];
  for (bool was_reset = false;;) {
    const ssize_t size = ::recv(connection_.get(), room, sizeof room, MSG_DONTWAIT);
    if (size > 0) {
      received_.append(room, static_cast<std::size_t>(size));
      return handle_frames(patience);
    }
    // The kernel reports a reset once, before what still waits to be read.
    if (size < 0 && errno == ECONNRESET && !was_reset) {
      was_reset = true;
      continue;
    }
    if (size == 0 || errno == ECONNRESET) return {Code::kDeviceUnavailable, place_ + " has closed the connection"};
    if (errno == EAGAIN) {
      if (Status status = wait_readable(connection_.get(), patience); !status.ok()) return status.in(place_);
    } else if (errno != EINTR) {
      return Status::of_errno(place_, errno);
    }
  }
}

Status Http2Connection::handle_frames(const Patience& patience) {
  std::string_view rest = received_;
  Status status;
  while (status.ok() && rest.size() >= kHeadBytes) {
    const std::uint64_t size = big_endian(rest.substr(0, 3));
    if (size > kMaxFrameBytes)
      return broken("sent a frame of " + std::to_string(size) + " bytes, expected at most " +
                    std::to_string(kMaxFrameBytes));
    if (rest.size() < kHeadBytes + size) break;
    const int type = rest[3], flags = static_cast<unsigned char>(rest[4]);
    const auto stream = static_cast<std::uint32_t>(big_endian(rest.substr(5, 4)) & kMaxWindow);
    status = handle(type, flags, stream, rest.substr(kHeadBytes, size), patience);
    rest.remove_prefix(kHeadBytes + size);
  }
  received_.erase(0, received_.size() - rest.size());
  return status;
}

Status Http2Connection::handle(int type, int flags, std::uint32_t stream, std::string_view payload,
                               const Patience& patience) {
  if (block_stream_ && (type != kContinuation || stream != block_stream_))
    return broken("sent something else in the middle of headers");
  switch (type) {
    case kData: return handle_data(flags, stream, payload, patience);
    case kHeaders:
    case kContinuation: return handle_headers(type, flags, stream, payload);
    case kReset: return handle_reset(stream, payload);
    case kSettings: return handle_settings(flags, payload, patience);
    case kPing: return flags & kAck ? Status() : send_frame(kPing, kAck, 0, payload, patience);
    case kGoAway: return handle_going(payload);
    case kWindow: return handle_window(stream, payload);
    case kPush: return broken("pushes, which was switched off");
    default: return {};  // priorities, and what RFC 9113 asks to ignore
  }
}

Status Http2Connection::handle_settings(int flags, std::string_view payload, const Patience& patience) {
  if (flags & kAck) return {};
  if (payload.size() % 6) return broken("sent settings of " + std::to_string(payload.size()) + " bytes");
  for (; !payload.empty(); payload.remove_prefix(6)) {
    if (big_endian(payload.substr(0, 2)) != kInitialWindowSize) continue;
    const auto window = static_cast<std::int64_t>(big_endian(payload.substr(2, 4)));
    if (window > kMaxWindow) return broken("sent an initial window that is too large");
    stream_window_ += window - initial_window_;  // below 0, if it has shrunk
    initial_window_ = window;
  }
  return send_frame(kSettings, kAck, 0, "", patience);
}

Status Http2Connection::handle_window(std::uint32_t stream, std::string_view payload) {
  if (payload.size() != 4) return broken("sent a window of " + std::to_string(payload.size()) + " bytes, expected 4");
  if (stream != 0 && stream != stream_) return {};
  std::int64_t& window = stream ? stream_window_ : window_;
  window += static_cast<std::int64_t>(big_endian(payload) & kMaxWindow);
  return window > kMaxWindow ? broken("lets more be sent than HTTP/2 can count") : Status();
}

Status Http2Connection::handle_going(std::string_view payload) {
  if (payload.size() < 8) return broken("sent a farewell of " + std::to_string(payload.size()) + " bytes");
  is_going_ = true;
  // A call that it has seen is still answered.
  if (has_ended_ || stream_ <= (big_endian(payload.substr(0, 4)) & kMaxWindow)) return {};
  was_not_processed_ = true;
  return {Code::kDeviceUnavailable, place_ + " takes no further calls on the connection"};
}

Status Http2Connection::handle_reset(std::uint32_t stream, std::string_view payload) {
  if (payload.size() != 4) return broken("sent a reset of " + std::to_string(payload.size()) + " bytes, expected 4");
  if (stream != stream_ || has_ended_) return {};
  const std::uint64_t code = big_endian(payload);
  was_not_processed_ = code == kRefusedStream;
  return {Code::kDeviceUnavailable, place_ + " has ended the call with error " + std::to_string(code) + " of HTTP/2"};
}

Status Http2Connection::handle_headers(int type, int flags, std::uint32_t stream, std::string_view payload) {
  if (type == kContinuation && !block_stream_) return broken("continues headers that have not begun");
  if (type == kHeaders) {
    if (!strip(type, flags, payload)) return broken("sent headers that are shorter than their padding");
    block_.clear();
    block_ends_stream_ = flags & kEndStream;
  }
  if (block_.size() + payload.size() > kMaxBlockBytes) return broken("sent headers without end");
  block_ += payload;
  block_stream_ = flags & kEndHeaders ? 0 : stream;
  if (block_stream_ || stream != stream_ || has_ended_) return {};
  Result<Headers> headers = decode_headers(block_);
  if (!headers.ok()) return headers.status().in(place_);
  for (auto& header : *headers) answer_.headers.push_back(std::move(header));
  has_ended_ = block_ends_stream_;
  return {};
}

Status Http2Connection::handle_data(int flags, std::uint32_t stream, std::string_view payload,
                                    const Patience& patience) {
  const std::size_t whole = payload.size();  // padding counts as well
  if (flags & kPadded && !strip(kData, flags, payload)) return broken("sent data that is shorter than its padding");
  const bool is_ours = stream == stream_ && !has_ended_;
  if (is_ours) {
    if (answer_.body.size() + payload.size() > kMaxBodyBytes) return broken("sent an answer without end");
    answer_.body += payload;
    has_ended_ = flags & kEndStream;
  }
  if (!whole) return {};
  // Lets it send as much again.
  std::string increment;
  append_big_endian(increment, whole, 4);
  if (is_ours && !has_ended_)
    if (Status status = send_frame(kWindow, 0, stream, increment, patience); !status.ok()) return status;
  return send_frame(kWindow, 0, 0, increment, patience);
}

}  // namespace nnhal::client
