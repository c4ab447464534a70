// The core's sessions against a process that a test plays: the link, calls over it, and runs of a binding.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "nnhal/client/framework.h"
#include "nnhal/datagram.h"
#include "nnhal/memory.h"
#include "unit.h"

using namespace nnhal;
using namespace nnhal::client;

namespace {

// The other side of a connected SOCK_SEQPACKET socket.
struct Peer {
  Fd socket;

  Message answer_of(std::uint64_t status, const std::string& text) const {
    return Message().number(1, status).bytes(2, text);
  }
  std::string receive(std::vector<Fd>* descriptors = nullptr) {
    std::string room(1000, '\0');
    Result<Datagram> datagram = receive_datagram(socket.get(), room.data(), room.size());
    if (!datagram.ok()) return "";
    if (descriptors) *descriptors = std::move(datagram->descriptors);
    return room.substr(0, datagram->size);
  }
  void send(const Message& message, const std::vector<int>& descriptors = {}) {
    const std::string& bytes = message.encoded();
    (void)send_datagram(socket.get(), bytes.data(), bytes.size(), descriptors.data(), descriptors.size());
  }
};

// A folder with sockets that are listened to.
class Endpoint {
 public:
  Endpoint() {
    char name[] = "/tmp/nnhal-XXXXXX";
    directory = ::mkdtemp(name);
    link_ = listen("/link.sock", SOCK_SEQPACKET);
  }
  ~Endpoint() {
    ::unlink((directory + "/link.sock").c_str());
    ::rmdir(directory.c_str());
  }
  Peer accept_link() { return {Fd(::accept4(link_.get(), nullptr, nullptr, SOCK_CLOEXEC))}; }
  Result<std::unique_ptr<Link>> open(std::int64_t answer_ns = 30'000'000'000) {
    Link::Options options;
    options.answer_ns = answer_ns;
    return Link::open(directory + "/link.sock", options);
  }
  std::string directory;

 private:
  Fd listen(const std::string& name, int type) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (directory + name).copy(address.sun_path, sizeof address.sun_path - 1);
    Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    CHECK(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    CHECK(::listen(socket.get(), 8) == 0);
    return socket;
  }
  Fd link_;
};

const Message kWelcome = Message().message(1, Message().bytes(1, "token").number(3, 2).number(5, /*calls=*/3));

// What comes of opening a link with a process that does this with it.
std::string opened(const std::function<void(Peer&)>& process) {
  Endpoint endpoint;
  std::thread thread([&] {
    Peer peer = endpoint.accept_link();
    process(peer);
  });
  const Result<std::unique_ptr<Link>> link = endpoint.open();
  thread.join();
  std::string words = link.status().words();
  const std::size_t at = words.find(endpoint.directory);
  return at == std::string::npos ? words : words.replace(at, endpoint.directory.size(), "DIR");
}

Message refusal(const std::string& text, std::uint64_t status) {
  return Message().message(5, Message().bytes(1, text).number(2, true).number(3, status));
}

// Opens a channel of calls, when it is asked to.
Peer open_calls(Peer& link) {
  auto [ours, theirs] = std::move(*socket_pair(SOCK_SEQPACKET));
  link.receive();
  link.send(Message().message(6, Message()), {theirs.get()});
  return {std::move(ours)};
}

// A framework with one binding, whose run channel leads to a device: a test plays both.
struct Bound {
  Endpoint endpoint;
  Peer link, calls, framework, device;
  std::unique_ptr<Framework> session;
  std::unique_ptr<Binding> binding;

  explicit Bound(bool may_fall_back = true) {
    auto [channel, channel_end] = std::move(*socket_pair(SOCK_SEQPACKET));
    auto [run_channel, run_channel_end] = std::move(*socket_pair(SOCK_SEQPACKET));
    framework.socket = std::move(channel_end);
    device.socket = std::move(run_channel_end);
    std::thread process([&, &first = channel, &second = run_channel] {
      link = endpoint.accept_link();
      link.receive();
      link.send(kWelcome);
      calls = open_calls(link);
      calls.receive();
      const Message direct = Message().number(1, 2).number(2, 77).number(3, may_fall_back).bytes(4, "").bytes(4, "out");
      calls.send(Message().message(3, Message().number(1, 5).number(2, 1).message(3, direct)));
      for (const Fd* one : {&first, &second}) {
        link.receive();
        link.send(Message().message(3, Message()), {one->get()});
      }
    });
    session = std::move(*Framework::open(endpoint.directory));
    binding = std::move(*session->bind("model", {}, {}, {}));
    process.join();
  }

  // How a run ends, and what the framework is asked, if the device does this with its call.
  std::string run(const std::function<void(const std::string&)>& does, const Message& framework_answers) {
    asked.clear();
    std::thread of_device([&] { does(device.receive()); });
    std::thread of_framework([&] {
      asked = framework.receive();
      if (!asked.empty()) framework.send(framework_answers);
    });
    const Status status = binding->run(&report);
    // Whoever was not asked waits no longer.
    ::shutdown(framework.socket.get(), SHUT_RD);
    ::shutdown(device.socket.get(), SHUT_RD);
    of_device.join();
    of_framework.join();
    return status.words();
  }
  RunReport report;
  std::string asked;
};

const Message kFitting = Message().message(3, Message().number(1, true));
const Message kDone = Message().message(3, Message().integer(1, 1000).number(7, true));
const Message kPlainCall = Message().integer(1, kNoTime);

Message lost_call(const std::string& because) {
  Message call = Message().integer(1, kNoTime).number(2, true);
  return because.empty() ? call : call.bytes(3, because);
}

}  // namespace

TEST(a_link_opens_with_a_welcome) {
  CHECK_SAME(opened([](Peer& peer) {
               std::string name;
               const std::string hello = peer.receive();
               for (FieldReader outer(hello); outer.next();)
                 for (FieldReader reader(outer.bytes()); reader.next();)
                   if (reader.field() == 2) name = reader.text();
               CHECK_SAME(name, "nnhal in C++");
               peer.send(kWelcome);
             }),
             "NONE");
}

TEST(a_link_that_is_refused_says_why) {
  CHECK_SAME(opened([](Peer& peer) {
               peer.receive();
               peer.send(refusal("no room", 7));
             }),
             "RESOURCE_EXHAUSTED_TRANSIENT: DIR/link.sock: the link refuses: no room");
  // Unasked, and then it hangs up: Hello cannot be sent any more, perhaps.
  CHECK_SAME(opened([](Peer& peer) {
               peer.send(refusal("who are you", 0));
               peer.socket.reset();
             }),
             "GENERAL_FAILURE: DIR/link.sock: the link refuses: who are you");
}

TEST(a_welcome_that_cannot_be_is_refused) {
  const std::string place = "GENERAL_FAILURE: DIR/link.sock";
  const auto after = [](const Message& reply) {
    return opened([&](Peer& peer) {
      peer.receive();
      peer.send(reply);
    });
  };
  CHECK_SAME(after(Message().message(1, Message().number(3, 2))), place + ": a Welcome without a token");
  CHECK_SAME(after(Message().message(2, Message())), place + ": a reply that does not belong to the request");
  CHECK_SAME(after(Message().bytes(1, "\x0a")), place + ": a Welcome without a token");
  CHECK_SAME(opened([](Peer& peer) { peer.receive(); }), "DEVICE_UNAVAILABLE: DIR/link.sock has closed the link");
}

TEST(descriptors_pass_over_a_link) {
  Endpoint endpoint;
  std::thread thread([&] {
    Peer peer = endpoint.accept_link();
    peer.receive();
    peer.send(kWelcome);
    std::vector<Fd> got;
    for (const std::vector<int>& ids : {std::vector<int>{1, 2}, std::vector<int>{3}}) {  // two at most with a datagram
      peer.receive(&got);
      CHECK(got.size() == ids.size());
      peer.send(Message().message(2, Message().numbers(1, ids)));
    }
    peer.receive();
    peer.send(Message().message(3, Message()), {got[0].get()});
    peer.receive();
    peer.send(Message().message(3, Message()), {got[0].get()});
    peer.receive();
    peer.send(Message().message(3, Message()));
  });
  std::unique_ptr<Link> link = std::move(*endpoint.open());
  const Fd file = std::move(*make_memfd("file", 10));
  const Result<std::vector<std::uint64_t>> ids = link->put({&file, &file, &file});
  CHECK(ids.ok() && *ids == (std::vector<std::uint64_t>{1, 2, 3}));
  CHECK(link->take(9).ok());
  const std::string place = endpoint.directory + "/link.sock: ";
  CHECK_SAME(link->take_channel(9).status().text(),
             place + "descriptor 9 is no channel: expected a SOCK_SEQPACKET socket");
  CHECK_SAME(link->take(9).status().text(), place + "0 descriptors came with descriptor 9");
  thread.join();
  CHECK(link->has_ended());
}

TEST(an_answer_of_a_link_that_comes_late_is_not_taken_for_another) {
  Endpoint endpoint;
  std::unique_ptr<Link> link;
  Peer peer;
  std::thread thread([&] {
    peer = endpoint.accept_link();
    peer.receive();
    peer.send(kWelcome);
  });
  link = std::move(*endpoint.open(200'000'000));
  thread.join();
  CHECK(link->take(1).status().code() == Code::kMissedDeadlineTransient);
  CHECK(link->take(2).status().code() == Code::kDeviceUnavailable);
}

TEST(a_direct_run_does_without_the_framework) {
  Bound bound;
  CHECK_SAME(bound.run(
                 [&](const std::string& call) {
                   const Message run = Message().integer(1, 77).integer(2, kNoTime);
                   CHECK(call == Message().message(1, run).encoded());
                   const Message shape = Message().numbers(1, std::vector<int>{4}).number(2, true);
                   bound.device.send(Message().message(3, Message().number(1, 1).message(2, shape).message(2, shape)));
                 },
                 kDone),
             "NONE");
  CHECK(bound.asked.empty() && bound.report.is_direct);
  CHECK(bound.report.outputs.size() == 1 && bound.report.outputs[0].name == "out");
  CHECK((bound.report.outputs[0].dimensions == std::vector<std::int64_t>{4}));
}

TEST(a_direct_run_that_a_device_refuses_is_repeated_if_another_may_do_it) {
  const auto words = [](Bound& bound, std::uint64_t status) {
    return bound.run([&](const std::string&) { bound.device.send(bound.device.answer_of(status, "no")); }, kDone);
  };
  Bound bound;
  CHECK_SAME(words(bound, 2), "NONE");
  CHECK(bound.asked == kPlainCall.encoded() && bound.report.fell_back && !bound.report.is_direct);
  CHECK(!bound.binding->has_lost_run_channel());
  Bound strict(/*may_fall_back=*/false);
  CHECK_SAME(words(strict, 2), "GENERAL_FAILURE: the run channel: no");
  CHECK(strict.asked.empty());
  Bound away(/*may_fall_back=*/false);  // the framework knows why
  CHECK_SAME(words(away, 1), "NONE");
}

TEST(an_output_that_does_not_fit_is_explained_by_the_framework) {
  Bound bound(/*may_fall_back=*/false);
  const Message needed = Message().bytes(1, "out").numbers(2, std::vector<int>{9});
  const Message answer = Message().number(1, 3).bytes(2, "too small").message(3, Message().message(4, needed));
  CHECK_SAME(
      bound.run([&](const std::string&) { bound.device.send(Message().message(3, Message().number(1, 0))); }, answer),
      "OUTPUT_INSUFFICIENT_SIZE: the binding's channel: too small");
  CHECK((bound.report.outputs.size() == 1 && bound.report.outputs[0].dimensions == std::vector<std::int64_t>{9}));
}

TEST(a_run_goes_on_through_the_framework_if_its_device_dies) {
  Bound bound(/*may_fall_back=*/false);
  CHECK_SAME(bound.run([&](const std::string&) { ::shutdown(bound.device.socket.get(), SHUT_RDWR); }, kDone), "NONE");
  CHECK(bound.asked == lost_call("").encoded());
  CHECK(bound.binding->has_lost_run_channel());
}

TEST(a_device_that_lies_on_a_run_channel_loses_it) {
  Bound silent;  // neither a status nor a result
  CHECK_SAME(silent.run([&](const std::string&) { silent.device.send(Message().fixed64(15, 0)); }, kDone), "NONE");
  CHECK(silent.asked == lost_call("the run channel: an answer without result of an execution").encoded());
  CHECK(silent.binding->has_lost_run_channel());

  Bound twice;
  twice.device.send(kFitting);  // the answer to a call that was not made yet
  CHECK_SAME(twice.run([](const std::string& call) { CHECK(call.empty()); }, kDone), "NONE");
  CHECK(twice.asked == lost_call("the run channel: an answer that no call has asked for").encoded());
}

namespace {

// Calls methods of a process that a test plays.
struct Called {
  Endpoint endpoint;
  Peer peer;
  std::unique_ptr<Link> link;

  explicit Called(const Message& welcome = kWelcome) {
    std::thread process([&] {
      peer = endpoint.accept_link();
      peer.receive();
      peer.send(welcome);
    });
    link = std::move(*endpoint.open());
    process.join();
  }
  std::string placed(const std::string& words) const {
    const std::string place = endpoint.directory + "/link.sock";
    const std::size_t at = words.find(place);
    return at == std::string::npos ? words : std::string(words).replace(at, place.size(), "LINK");
  }
};

}  // namespace

TEST(calls_follow_one_another_on_a_channel) {
  Called called;
  Rpc rpc(*called.link);
  std::thread process([&] {
    Peer calls = open_calls(called.peer);
    CHECK(calls.receive() == Message().bytes(1, "S/M").bytes(2, Message().number(1, 2).encoded()).encoded());
    calls.send(Message().bytes(3, "answer"));
    calls.receive();
    calls.send(Message().number(1, 4).bytes(2, "bad"));
    calls.receive();
    calls.send(Message().bytes(3, ""));
    calls.receive();
    calls.send(Message().number(4, 10));
  });
  CHECK_SAME(*rpc.call("S/M", Message().number(1, 2)), "answer");
  const Status refused = rpc.call("S/M", Message()).status();
  CHECK_SAME(refused.words(), "INVALID_ARGUMENT: S/M: bad");
  CHECK(refused.is_answer());
  CHECK_SAME(*rpc.call("S/M", Message()), "");
  CHECK_SAME(rpc.call("S/M", Message()).status().text(), "S/M: an answer of 10 bytes in 0 memories");
  process.join();
}

TEST(long_messages_are_in_shared_memory) {
  Called called;
  Rpc rpc(*called.link);
  const std::string text(100'000, 'x');
  std::thread process([&] {
    Peer calls = open_calls(called.peer);
    std::vector<Fd> received;
    const std::string call = calls.receive(&received);
    const std::size_t size = Message().bytes(1, text).encoded().size();
    CHECK(call == Message().bytes(1, "S/M").number(3, size).encoded() && received.size() == 1);
    CHECK(require_ashmem(received[0], static_cast<std::int64_t>(size), "it").ok());
    calls.send(Message().number(4, size), {received[0].get()});
  });
  const Result<std::string> answer = rpc.call("S/M", Message().bytes(1, text));
  CHECK(answer.ok() && *answer == Message().bytes(1, text).encoded());
  process.join();
}

TEST(a_call_ends_at_a_deadline_or_an_interrupt_and_its_channel_with_it) {
  Called called;
  Rpc rpc(*called.link);
  Result<Interrupt> interrupt = Interrupt::make();
  std::thread process([&] {
    for (int number = 0; number < 2; ++number) {
      Peer calls = open_calls(called.peer);
      calls.receive();
      if (number) interrupt->trigger();
      CHECK(calls.receive().empty());
    }
  });
  CHECK_SAME(called.placed(rpc.call("S/M", Message(), {now_ns() + 20'000'000}).status().words()),
             "MISSED_DEADLINE_TRANSIENT: S/M: LINK: no answer before the deadline");
  CHECK_SAME(called.placed(rpc.call("S/M", Message(), {kNoTime, &*interrupt}).status().words()),
             "GENERAL_FAILURE: S/M: LINK: the call was cancelled");
  process.join();
}

TEST(a_process_that_serves_no_calls_or_has_gone_is_told) {
  Called without(Message().message(1, Message().bytes(1, "token")));
  CHECK_SAME(without.placed(Rpc(*without.link).call("S/M", Message()).status().words()),
             "GENERAL_FAILURE: S/M: LINK: the process serves no calls over its link: expected a framework of this "
             "version or later");
  Called called;
  called.peer.socket.reset();
  CHECK_SAME(called.placed(Rpc(*called.link).call("S/M", Message()).status().words()),
             "DEVICE_UNAVAILABLE: S/M: LINK has closed the link");
}

TEST(calls_of_several_threads_do_not_wait_for_one_another) {
  Called called;
  Rpc rpc(*called.link);
  std::thread process([&] {
    Peer first = open_calls(called.peer);
    first.receive();
    Peer second = open_calls(called.peer);  // while the first call waits
    second.receive();
    second.send(Message().bytes(3, "second"));
    first.send(Message().bytes(3, "first"));
  });
  std::vector<std::string> answers(2);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) threads.emplace_back([&] { answer = *rpc.call("S/M", Message()); });
  for (std::thread& one : threads) one.join();
  process.join();
  CHECK_SAME(std::min(answers[0], answers[1]) + std::max(answers[0], answers[1]), "firstsecond");
}
