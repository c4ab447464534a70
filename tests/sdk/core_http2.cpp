// The core's HTTP/2 and gRPC against a server that sends what a test tells it to, frame by frame.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "nnhal/client/http2.h"
#include "nnhal/client/rpc.h"
#include "nnhal/datagram.h"
#include "unit.h"

using namespace nnhal;
using namespace nnhal::client;

namespace {

enum Type { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
enum Flag { kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8, kHasPriority = 32 };

std::string big_endian(std::uint64_t value, int count) {
  std::string bytes;
  while (count--) bytes += static_cast<char>(value >> 8 * count);
  return bytes;
}

std::uint64_t from_big_endian(const std::string& bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

struct Frame {
  int type = -1;
  int flags = 0;
  std::uint32_t stream = 0;
  std::string payload;
};

// The server's side of one connection.
class Server {
 public:
  explicit Server(Fd socket) : socket_(std::move(socket)) {}

  std::string read(std::size_t count) {
    std::string bytes(count, '\0');
    for (std::size_t at = 0; at < count;) {
      const ssize_t got = ::recv(socket_.get(), &bytes[at], count - at, 0);
      if (got <= 0) return "";
      at += static_cast<std::size_t>(got);
    }
    return bytes;
  }
  // The next frame, of type -1 at the end. What the client says of its own settings and windows is passed over.
  Frame frame() {
    for (;;) {
      const std::string head = read(9);
      if (head.empty()) return {};
      const std::size_t size = from_big_endian(head.substr(0, 3));
      CHECK(size <= 16384);
      Frame frame{head[3], head[4], static_cast<std::uint32_t>(from_big_endian(head.substr(5))),
                  size ? read(size) : ""};
      if (frame.type != kSettings && frame.type != kWindow) return frame;
    }
  }
  // A whole request: the body, and the stream in `stream`.
  std::string request() {
    if (!has_begun_) CHECK(read(24) == "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    has_begun_ = true;
    std::string body;
    for (;;) {
      const Frame next = frame();
      if (next.type == -1) return body;
      if (next.type == kHeaders) stream = next.stream;
      if (next.type == kData) body += next.payload;
      if (next.type == kData && next.flags & kEndStream) return body;
    }
  }
  void send(int type, int flags, std::uint32_t on_stream, const std::string& payload) {
    const std::string bytes = big_endian(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
                              big_endian(on_stream, 4) + payload;
    send_raw(bytes);
  }
  void send_raw(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(socket_.get(), &bytes[at], bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  void answer(const std::string& body, const std::string& grpc_status = "0") {
    send(kHeaders, kEndHeaders, stream, "\x88");
    for (std::size_t at = 0; at < body.size(); at += 16384) send(kData, 0, stream, body.substr(at, 16384));
    std::string trailers;
    append_header(trailers, "grpc-status", grpc_status);
    send(kHeaders, kEndHeaders | kEndStream, stream, trailers);
  }
  void close() { socket_.reset(); }

  std::uint32_t stream = 0;

 private:
  Fd socket_;
  bool has_begun_ = false;
};

using Script = std::function<void(Server&)>;

struct Outcome {
  std::string status, body, path_header;
  bool was_not_processed = false, is_usable = false;
  Headers headers;
};

// One exchange with a server that follows the script.
Outcome outcome(const Script& script, const std::string& body = "body", const Patience& patience = {}) {
  auto [ours, theirs] = std::move(*socket_pair(SOCK_STREAM));
  Server server(std::move(theirs));
  Http2Connection connection(std::move(ours), "the server");
  std::thread thread([&] { script(server); });
  Result<Http2Connection::Answer> answer = connection.exchange({{":method", "POST"}}, body, patience);
  thread.join();
  Outcome found;
  found.status = answer.status().words();
  found.was_not_processed = connection.was_not_processed();
  found.is_usable = connection.is_usable();
  if (answer.ok()) {
    found.body = answer->body;
    found.headers = answer->headers;
  }
  return found;
}

// How an exchange ends if the server sends this instead of an answer.
std::string status_after(const std::function<void(Server&)>& sends) {
  return outcome([&](Server& server) {
           server.request();
           sends(server);
           server.request();  // until the client has closed the connection
         })
      .status;
}

const std::string kLarge = [] {
  std::string bytes(300'000, '\0');
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<char>(at * 7 + at / 251);
  return bytes;
}();

// A process with a socket that is listened to.
class Listener {
 public:
  Listener() {
    char name[] = "/tmp/nnhal-XXXXXX";
    directory_ = ::mkdtemp(name);
    path = directory_ + "/device.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    CHECK(::listen(socket_.get(), 8) == 0);
  }
  ~Listener() {
    ::unlink(path.c_str());
    ::rmdir(directory_.c_str());
  }
  Server accept() { return Server(Fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC))); }
  std::string path;

 private:
  std::string directory_;
  Fd socket_;
};

std::string framed(const std::string& message) { return '\0' + big_endian(message.size(), 4) + message; }

}  // namespace

TEST(an_answer_has_headers_a_body_and_trailers) {
  const Outcome found = outcome([](Server& server) {
    CHECK(server.request() == "body");
    server.answer("answer");
    server.close();
  });
  CHECK_SAME(found.status, "NONE");
  CHECK_SAME(found.body, "answer");
  CHECK_SAME(header_of(found.headers, ":status") + header_of(found.headers, "grpc-status"), "2000");
  CHECK(!found.is_usable);  // the server has gone
}

TEST(headers_go_on_in_further_frames) {
  const Outcome found = outcome([](Server& server) {
    server.request();
    std::string block;
    append_header(block, "grpc-message", std::string(40'000, 'm'));
    append_header(block, "grpc-status", "0");
    server.send(kHeaders, kEndStream, server.stream, block.substr(0, 3));
    server.send(kContinuation, 0, server.stream, "");
    for (std::size_t at = 3; at < block.size(); at += 16384)
      server.send(kContinuation, at + 16384 >= block.size() ? kEndHeaders : 0, server.stream, block.substr(at, 16384));
  });
  CHECK_SAME(found.status, "NONE");
  CHECK_SAME(header_of(found.headers, "grpc-status"), "0");
  CHECK(header_of(found.headers, "grpc-message").size() == 40'000);
}

TEST(headers_of_the_request_go_on_in_further_frames) {
  auto [ours, theirs] = std::move(*socket_pair(SOCK_STREAM));
  Server server(std::move(theirs));
  Http2Connection connection(std::move(ours), "the server");
  std::thread thread([&] {
    server.read(24);
    const Frame first = server.frame(), second = server.frame(), third = server.frame();
    CHECK(first.type == kHeaders && second.type == kContinuation && third.type == kContinuation);
    CHECK(!(first.flags & kEndHeaders) && !(second.flags & kEndHeaders) && third.flags & kEndHeaders);
    const Result<Headers> headers = decode_headers(first.payload + second.payload + third.payload);
    CHECK(headers.ok() && header_of(*headers, "long").size() == 40'000);
    server.stream = first.stream;
    server.answer("");
  });
  CHECK(connection.exchange({{"long", std::string(40'000, 'l')}}, "", {}).ok());
  thread.join();
}

TEST(padding_and_priorities_are_taken_off) {
  const Outcome found = outcome([](Server& server) {
    server.request();
    server.send(kHeaders, kEndHeaders | kPadded | kHasPriority, server.stream,
                std::string("\x02", 1) + std::string(5, 'p') + "\x88" + std::string(2, '\0'));
    server.send(kData, kPadded, server.stream, std::string("\x03", 1) + "data" + std::string(3, '\0'));
    server.send(kPriority, 0, server.stream, std::string(5, '\0'));
    server.send(77, 0, server.stream, "of a type that nobody knows");
    server.send(kData, kEndStream, server.stream, "");
  });
  CHECK_SAME(found.status + " " + found.body, "NONE data");
}

TEST(messages_of_many_frames_pass_both_ways) {
  const Outcome found = outcome(
      [](Server& server) {
        // Windows of the stream and of the connection that are given in small parts, and one that shrinks below 0.
        server.send(kSettings, 0, 0, big_endian(4, 2) + big_endian(100, 4));
        CHECK(server.read(24).size() == 24);
        Frame next = server.frame();
        server.stream = next.stream;
        server.send(kSettings, 0, 0, big_endian(4, 2) + big_endian(40, 4));
        server.send(kWindow, 0, 0, big_endian(1'000'000, 4));
        server.send(kWindow, 0, server.stream, big_endian(100, 4));
        std::string body;
        do {
          next = server.frame();
          body += next.payload;
          server.send(kWindow, 0, server.stream, big_endian(next.payload.size() + 9000, 4));
        } while (next.type == kData && !(next.flags & kEndStream));
        CHECK(body == kLarge);
        server.answer(kLarge);
      },
      kLarge);
  CHECK_SAME(found.status, "NONE");
  CHECK(found.body == kLarge);
}

TEST(the_client_lets_as_much_be_sent_again_as_it_has_received) {
  auto [ours, theirs] = std::move(*socket_pair(SOCK_STREAM));
  Server server(std::move(theirs));
  Http2Connection connection(std::move(ours), "the server");
  std::thread thread([&] {
    server.request();
    server.send(kHeaders, kEndHeaders, server.stream, "\x88");
    server.send(kData, 0, server.stream, "12345");
    std::uint64_t of_stream = 0, of_connection = 0;
    while (!of_stream || !of_connection) {
      const std::string head = server.read(9);
      const std::string payload = server.read(from_big_endian(head.substr(0, 3)));
      if (head[3] == kWindow) (from_big_endian(head.substr(5)) ? of_stream : of_connection) += from_big_endian(payload);
    }
    CHECK(of_stream == 5 && of_connection == 5);
    server.send(kData, kEndStream, server.stream, "");
  });
  CHECK(connection.exchange({{":method", "POST"}}, "body", {}).ok());
  thread.join();
}

TEST(a_ping_is_answered) {
  const Outcome found = outcome([](Server& server) {
    server.request();
    server.send(kPing, 0, 0, "12345678");
    const Frame answered = server.frame();
    CHECK(answered.type == kPing && answered.flags == kAck && answered.payload == "12345678");
    server.send(kPing, kAck, 0, "12345678");  // is not answered again
    server.answer("");
  });
  CHECK_SAME(found.status, "NONE");
}

TEST(a_server_that_goes_answers_the_calls_that_it_has_seen) {
  const Outcome found = outcome([](Server& server) {
    server.request();
    server.send(kGoAway, 0, 0, big_endian(server.stream, 4) + big_endian(0, 4) + "why");
    server.answer("answer");
  });
  CHECK_SAME(found.status + " " + found.body, "NONE answer");
  CHECK(!found.is_usable);
}

TEST(calls_that_a_server_has_not_looked_at_are_told_from_others) {
  const Outcome gone = outcome([](Server& server) {
    server.request();
    server.send(kGoAway, 0, 0, big_endian(0, 4) + big_endian(0, 4));
  });
  CHECK_SAME(gone.status, "DEVICE_UNAVAILABLE: the server takes no further calls on the connection");
  CHECK(gone.was_not_processed);
  const Outcome refused = outcome([](Server& server) {
    server.request();
    server.send(kReset, 0, server.stream, big_endian(7, 4));
  });
  CHECK(refused.was_not_processed);
  const Outcome ended = outcome([](Server& server) {
    server.request();
    server.send(kReset, 0, server.stream, big_endian(2, 4));
  });
  CHECK_SAME(ended.status, "DEVICE_UNAVAILABLE: the server has ended the call with error 2 of HTTP/2");
  CHECK(!ended.was_not_processed);
}

TEST(a_server_that_dies_ends_the_call) {
  const std::string expected = "DEVICE_UNAVAILABLE: the server has closed the connection";
  CHECK_SAME(outcome([](Server& server) { server.close(); }, kLarge).status, expected);
  CHECK_SAME(outcome([](Server& server) {
               server.request();
               server.send_raw(std::string("\0\0\x05", 3));  // in the middle of a frame
               server.close();
             }).status,
             expected);
}

TEST(a_server_may_answer_before_it_has_the_whole_request) {
  const Outcome found = outcome(
      [](Server& server) {
        server.read(24);
        server.stream = server.frame().stream;
        server.answer("", "8");
        Frame next;
        do next = server.frame();
        while (next.type != kReset && next.type != -1);
        CHECK(next.type == kReset);
      },
      kLarge);
  CHECK_SAME(found.status + header_of(found.headers, "grpc-status"), "NONE8");
}

TEST(frames_that_cannot_be_end_the_call) {
  const auto ends = [](int type, int flags, const std::string& payload) {
    return status_after([&](Server& server) { server.send(type, flags, server.stream, payload); });
  };
  const std::string say = "GENERAL_FAILURE: the server ";
  CHECK_SAME(ends(kData, kPadded, "\x06 data"), say + "sent data that is shorter than its padding");
  CHECK_SAME(ends(kHeaders, kPadded | kEndHeaders, ""), say + "sent headers that are shorter than their padding");
  CHECK_SAME(ends(kHeaders, kHasPriority | kEndHeaders, "1234"),
             say + "sent headers that are shorter than their padding");
  CHECK_SAME(ends(kContinuation, kEndHeaders, "\x88"), say + "continues headers that have not begun");
  CHECK_SAME(ends(kHeaders, kEndHeaders, "\xff"),
             "GENERAL_FAILURE: the server: malformed headers: an end that is too early");
  CHECK_SAME(ends(kSettings, 0, "12345"), say + "sent settings of 5 bytes");
  CHECK_SAME(ends(kSettings, 0, big_endian(4, 2) + big_endian(0x80000000, 4)),
             say + "sent an initial window that is too large");
  CHECK_SAME(ends(kWindow, 0, "123"), say + "sent a window of 3 bytes, expected 4");
  CHECK_SAME(ends(kWindow, 0, big_endian(0x7fffffff, 4)), say + "lets more be sent than HTTP/2 can count");
  CHECK_SAME(ends(kGoAway, 0, "1234567"), say + "sent a farewell of 7 bytes");
  CHECK_SAME(ends(kReset, 0, ""), say + "sent a reset of 0 bytes, expected 4");
  CHECK_SAME(ends(kPush, kEndHeaders, "1234"), say + "pushes, which was switched off");
  CHECK_SAME(status_after([](Server& server) { server.send_raw(big_endian(16385, 3) + std::string(6, '\0')); }),
             say + "sent a frame of 16385 bytes, expected at most 16384");
  CHECK_SAME(status_after([](Server& server) {
               server.send(kHeaders, 0, server.stream, "\x88");
               server.send(kData, kEndStream, server.stream, "");
             }),
             say + "sent something else in the middle of headers");
  CHECK_SAME(status_after([](Server& server) {
               server.send(kHeaders, 0, server.stream, "");
               for (int part = 0; part < 20; ++part)
                 server.send(kContinuation, 0, server.stream, std::string(16384, 'x'));
             }),
             say + "sent headers without end");
}

TEST(frames_of_a_stranger_are_read_or_refused) {
  std::mt19937 random(29);  // the same in each run
  for (int round = 0; round < 300; ++round) {
    const Outcome found = outcome([&](Server& server) {
      server.request();
      for (unsigned frames = 1 + random() % 6; frames--;) {
        std::string payload(random() % 20, '\0');
        for (char& byte : payload) byte = static_cast<char>(random());
        server.send(static_cast<int>(random() % 11), static_cast<int>(random() & 0x2d),
                    random() % 3 ? server.stream : 0, payload);
      }
      server.close();
    });
    CHECK(found.status == "NONE" || found.status.find("the server") != std::string::npos);
  }
}

TEST(a_call_ends_at_a_deadline_or_an_interrupt) {
  const auto until_closed = [](Server& server) {
    server.request();
    CHECK(server.frame().type == kReset);
    CHECK(server.frame().type == -1);
  };
  CHECK_SAME(outcome(until_closed, "body", {now_ns() + 20'000'000}).status,
             "MISSED_DEADLINE_TRANSIENT: the server: no answer before the deadline");
  Result<Interrupt> interrupt = Interrupt::make();
  CHECK_SAME(outcome(
                 [&](Server& server) {
                   server.request();
                   interrupt->trigger();
                   server.request();
                 },
                 "body", {kNoTime, &*interrupt})
                 .status,
             "GENERAL_FAILURE: the server: the call was cancelled");
}

TEST(a_call_of_grpc_answers_one_message) {
  Listener listener;
  Rpc rpc(listener.path, "token");
  std::thread thread([&] {
    Server server = listener.accept();
    CHECK(server.request() == framed(Message().number(1, 2).encoded()));
    server.answer(framed("answer"));
    server.request();  // of the same connection
    server.answer(framed("one") + framed("two"));
    server.request();
    server.answer(framed("half").substr(0, 7));
    server.request();
    server.answer("\x01" + framed("compressed").substr(1));
  });
  CHECK_SAME(*rpc.call("S/M", Message().number(1, 2)), "answer");
  CHECK_SAME(rpc.call("S/M", Message()).status().text(), "S/M answered 2 messages, expected 1");
  const std::string half = "S/M answered half a message, or a compressed one";
  CHECK_SAME(rpc.call("S/M", Message()).status().text(), half);
  CHECK_SAME(rpc.call("S/M", Message()).status().text(), half);
  thread.join();
}

TEST(a_refusal_of_grpc_says_whether_it_is_the_process_s_own) {
  Listener listener;
  Rpc rpc(listener.path, "");
  std::thread thread([&] {
    Server server = listener.accept();
    const auto refuse = [&](const Headers& headers) {
      server.request();
      std::string block = "\x88";
      for (const auto& [name, value] : headers) append_header(block, name, value);
      server.send(kHeaders, kEndHeaders | kEndStream, server.stream, block);
    };
    refuse({{"grpc-status", "12"}, {"grpc-message", "no%20such%zz method%"}});
    refuse({{"grpc-status", "14"}});
    refuse({});
    // google.rpc.Status{details: Any{"type.googleapis.com/nnhal.v1.ErrorDetail", ErrorDetail{4, "bad"}}} in base64.
    refuse({{"grpc-status", "3"},
            {"grpc-status-details-bin", "GjMKKHR5cGUuZ29vZ2xlYXBpcy5jb20vbm5oYWwudjEuRXJyb3JEZXRhaWwSBwgEEgNiYWQ"}});
  });
  const auto status = [&] { return rpc.call("S/M", Message()).status(); };
  CHECK_SAME(status().words(), "GENERAL_FAILURE: S/M is not served: no such%zz method%");
  CHECK_SAME(status().words(), "DEVICE_UNAVAILABLE: S/M failed with status 14 of gRPC");
  const Status without = status();
  CHECK_SAME(without.words(), "GENERAL_FAILURE: S/M ended without a status of gRPC, with status 200 of HTTP");
  CHECK(!without.is_answer());
  const Status own = status();
  CHECK_SAME(own.words(), "INVALID_ARGUMENT: S/M: bad");
  CHECK(own.is_answer());
  thread.join();
}

TEST(a_call_that_was_not_looked_at_is_sent_again_once) {
  Listener listener;
  Rpc rpc(listener.path, "");
  std::promise<void> left;  // the connection of the answer: a call sent before would be the one that is sent again
  std::thread thread([&] {
    for (int connection = 0; connection < 4; ++connection) {
      Server server = listener.accept();
      server.request();
      if (connection == 1) server.answer(framed("answer"));
      server.send(kGoAway, 0, 0, big_endian(connection == 1 ? server.stream : 0, 4) + big_endian(0, 4));
      if (connection == 1) left.set_value();
    }
  });
  CHECK_SAME(*rpc.call("S/M", Message()), "answer");
  left.get_future().wait();
  CHECK_SAME(rpc.call("S/M", Message()).status().text(),
             "S/M: " + listener.path + " takes no further calls on the connection");
  thread.join();
}

TEST(a_process_that_is_not_there_is_unavailable) {
  Rpc rpc("/nowhere/device.sock", "");
  CHECK_SAME(rpc.call("S/M", Message()).status().words(),
             "DEVICE_UNAVAILABLE: S/M: /nowhere/device.sock: No such file or directory");
  Rpc of_long_path(std::string(108, 'x'), "");
  CHECK(of_long_path.call("S/M", Message()).status().code() == Code::kInvalidArgument);
}

TEST(calls_of_several_threads_do_not_wait_for_one_another) {
  Listener listener;
  Rpc rpc(listener.path, "");
  std::thread thread([&] {
    Server first = listener.accept();
    first.request();
    Server second = listener.accept();  // while the first call waits
    second.request();
    second.answer(framed("second"));
    first.answer(framed("first"));
  });
  std::vector<std::string> answers(2);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) threads.emplace_back([&] { answer = *rpc.call("S/M", Message()); });
  for (std::thread& one : threads) one.join();
  thread.join();
  std::sort(answers.begin(), answers.end());
  CHECK_SAME(answers[0] + answers[1], "firstsecond");
}
