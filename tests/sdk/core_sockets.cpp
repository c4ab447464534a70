// What the core does with descriptors: datagrams, channels, shared memory and fences.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "nnhal/client/channel.h"
#include "nnhal/datagram.h"
#include "nnhal/fence.h"
#include "nnhal/memory.h"
#include "unit.h"

using namespace nnhal;
using client::Channel;

namespace {

std::pair<Fd, Fd> pair(int type = SOCK_SEQPACKET) { return std::move(*socket_pair(type)); }

std::pair<Signal, Fence> fence() { return std::move(*make_fence()); }

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

// The other side of a channel: what it receives and answers, one after the other.
struct Peer {
  Fd socket;

  std::string receive() {
    char room[1000];
    const Result<Datagram> datagram = receive_datagram(socket.get(), room, sizeof room);
    return datagram.ok() ? std::string(room, datagram->size) : "";
  }
  void answer(const Message& message) {
    CHECK(send_datagram(socket.get(), message.encoded().data(), message.encoded().size()).ok());
  }
};

struct Connected {
  std::unique_ptr<Channel> channel;
  Peer peer;
};

Connected connected(bool is_numbered = false) {
  auto [ours, theirs] = pair();
  return {std::make_unique<Channel>(std::move(ours), "the channel", is_numbered), {std::move(theirs)}};
}

const Message kCall = Message().number(1, 1);

std::string words(const Result<Channel::Answer>& answer) { return answer.status().words(); }

// One call that is answered with what `answer` makes of it.
template <typename Function>
Result<Channel::Answer> exchange(Connected& both, Function answer) {
  std::thread other([&] { answer(both.peer.receive()); });
  Result<Channel::Answer> answered = both.channel->exchange(kCall);
  other.join();
  return answered;
}

}  // namespace

TEST(a_descriptor_is_closed_with_its_owner) {
  int number;
  {
    Fd first = std::move(pair().first);
    number = first.get();
    Fd second = std::move(first);
    CHECK(!first && second.get() == number && is_open(number));
    Result<Fd> copy = second.duplicate();
    CHECK(copy.ok() && copy->get() != number && is_open(copy->get()));
  }
  CHECK(!is_open(number));
  CHECK_SAME(Fd().duplicate().status().words(),
             "GENERAL_FAILURE: a descriptor cannot be duplicated: Bad file descriptor");
}

TEST(a_datagram_carries_descriptors) {
  auto [here, there] = pair();
  std::vector<int> sent(kMaxDescriptors, there.get());
  CHECK(send_datagram(here.get(), "data", 4, sent.data(), sent.size()).ok());
  char room[100];
  Result<Datagram> received = receive_datagram(there.get(), room, sizeof room);
  CHECK(received.ok() && received->kind == Datagram::Kind::kMessage && received->size == 4);
  CHECK(received.ok() && received->descriptors.size() == kMaxDescriptors);
  for (const Fd& one : received->descriptors) CHECK(::fcntl(one.get(), F_GETFD) == FD_CLOEXEC);
  sent.push_back(here.get());
  CHECK_SAME(send_datagram(here.get(), "data", 4, sent.data(), sent.size()).text(),
             "a datagram has 17 descriptors, expected at most 16");
}

TEST(a_datagram_that_cannot_be_is_told_from_the_end) {
  auto [here, there] = pair();
  char room[4];
  CHECK(receive_datagram(there.get(), room, 4, MSG_DONTWAIT)->kind == Datagram::Kind::kNothing);
  CHECK(send_datagram(here.get(), "12345", 5).ok());
  CHECK(receive_datagram(there.get(), room, 4)->kind == Datagram::Kind::kTooLong);
  CHECK_SAME(send_datagram(here.get(), "", 0).text(), "a datagram has 0 bytes, expected 1 to 65536");
  CHECK(!has_hung_up(there.get()));
  CHECK(send_datagram(here.get(), "last", 4).ok());
  here.reset();
  CHECK(has_hung_up(there.get()));
  CHECK(receive_datagram(there.get(), room, 4)->kind == Datagram::Kind::kMessage);
  CHECK(receive_datagram(there.get(), room, 4)->kind == Datagram::Kind::kEnd);
  CHECK(send_datagram(there.get(), "data", 4).code() == Code::kDeviceUnavailable);
}

TEST(what_was_answered_before_a_reset_is_received) {
  auto [here, there] = pair();
  CHECK(send_datagram(there.get(), "unread", 6).ok());
  CHECK(send_datagram(here.get(), "last", 4).ok());
  here.reset();  // with a datagram that was not read: the kernel reports a reset first
  char room[100];
  CHECK(receive_datagram(there.get(), room, sizeof room)->kind == Datagram::Kind::kMessage);
  CHECK(receive_datagram(there.get(), room, sizeof room)->kind == Datagram::Kind::kEnd);
}

TEST(a_channel_answers_one_call_after_the_other) {
  Connected both = connected();
  for (int round = 0; round < 3; ++round) {
    const auto answer = exchange(both, [&](const std::string& call) {
      CHECK(call == kCall.encoded());
      both.peer.answer(Message().number(1, static_cast<std::uint64_t>(round)));
    });
    CHECK(answer.ok() && answer->bytes == Message().number(1, static_cast<std::uint64_t>(round)).encoded());
  }
}

TEST(an_answer_that_comes_twice_ends_the_channel_before_the_next_call) {
  Connected both = connected();
  CHECK(exchange(both, [&](const std::string&) {
          both.peer.answer(kCall);
          both.peer.answer(kCall);
        }).ok());
  CHECK_SAME(words(both.channel->exchange(kCall)),
             "GENERAL_FAILURE: the channel: an answer that no call has asked for");
  CHECK_SAME(words(both.channel->exchange(kCall)), "DEVICE_UNAVAILABLE: the channel has ended");
  CHECK(both.channel->has_ended());
  CHECK_SAME(both.peer.receive(), "");  // no second call was sent
}

TEST(numbered_calls_take_answers_with_their_number_only) {
  Connected both = connected(true);
  const auto echo = [&](const std::string& call) {
    CHECK(call == Message(kCall).fixed64(15, 1).encoded());
    both.peer.answer(Message().number(1, 0).fixed64(15, 1));
  };
  CHECK(exchange(both, echo).ok());
  // The answer of the call before once more, and then none at all.
  CHECK_SAME(words(exchange(both, [&](const std::string&) { both.peer.answer(Message().fixed64(15, 1)); })),
             "GENERAL_FAILURE: the channel: an answer with number 1, expected 2");
  Connected another = connected(true);
  CHECK_SAME(words(exchange(another, [&](const std::string&) { another.peer.answer(kCall); })),
             "GENERAL_FAILURE: the channel: an answer with number 0, expected 1");
}

TEST(a_channel_says_how_its_other_side_has_gone) {
  Connected both = connected();
  CHECK_SAME(words(exchange(both, [&](const std::string&) { both.peer.socket.reset(); })),
             "DEVICE_UNAVAILABLE: the channel: the other side has closed the socket");
  Connected gone = connected();
  gone.peer.socket.reset();
  CHECK_SAME(words(gone.channel->exchange(kCall)),
             "DEVICE_UNAVAILABLE: the channel: the other side has closed the socket");
}

TEST(the_last_words_of_a_channel_are_not_taken_for_an_answer) {
  Connected both = connected();
  both.peer.answer(Message().number(1, 4));
  both.peer.socket.reset();
  CHECK_SAME(words(both.channel->exchange(kCall)),
             "GENERAL_FAILURE: the channel: an answer that no call has asked for");
}

TEST(waiting_for_an_answer_ends_at_a_deadline_or_an_interrupt) {
  Connected both = connected();
  CHECK_SAME(words(both.channel->exchange(kCall, {}, {now_ns()})),
             "MISSED_DEADLINE_TRANSIENT: the channel: no answer before the deadline");
  Result<Interrupt> interrupt = Interrupt::make();
  Connected another = connected();
  std::thread other([&] {
    another.peer.receive();
    interrupt->trigger();
  });
  CHECK_SAME(words(another.channel->exchange(kCall, {}, {kNoTime, &*interrupt})),
             "GENERAL_FAILURE: the channel: the call was cancelled");
  other.join();
  // What comes late is never taken for the answer of another call.
  CHECK_SAME(words(another.channel->exchange(kCall)), "DEVICE_UNAVAILABLE: the channel has ended");
}

TEST(a_call_that_is_asked_to_end_is_still_answered) {
  Connected both = connected();
  const auto answer = exchange(both, [&](const std::string&) {
    both.channel->end_sending();
    CHECK(both.peer.receive().empty());  // the end of that direction
    both.peer.answer(kCall);
  });
  CHECK(answer.ok());
  CHECK_SAME(words(both.channel->exchange(kCall)), "DEVICE_UNAVAILABLE: the channel has ended");
}

TEST(threads_share_a_channel) {
  Connected both = connected(true);
  constexpr int kThreads = 4, kCalls = 50;
  std::thread other([&] {
    for (int served = 0; served < kThreads * kCalls; ++served) {
      const std::string call = both.peer.receive();
      both.peer.answer(Message().fixed64(15, static_cast<std::uint64_t>(served) + 1));
    }
  });
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index)
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) CHECK(both.channel->exchange(kCall).ok());
    });
  for (std::thread& thread : threads) thread.join();
  other.join();
}

TEST(shared_memory_keeps_its_size) {
  Result<SharedMemory> memory = SharedMemory::make(5000);
  CHECK(memory.ok() && memory->size() == 5000 && cannot_shrink(memory->file) && !cannot_change(memory->file));
  memory->data()[4999] = 7;
  CHECK(::ftruncate(memory->file.get(), 4000) < 0 && errno == EPERM);
  CHECK(require_ashmem(memory->file, 5000, "pool 0").ok());
  CHECK_SAME(require_ashmem(memory->file, 5001, "pool 0").words(),
             "INVALID_ARGUMENT: pool 0 needs 5001 bytes, but the file behind it has 5000");
  CHECK_SAME(require_ashmem(memory->file, 0, "pool 0").text(), "pool 0 is ashmem of 0 bytes, expected more than 0");
  CHECK_SAME(make_memfd("none", 0).status().text(), "shared memory of 0 bytes, expected more");
  // Its bytes, from the middle of a page on.
  Result<Mapping> part = Mapping::map(memory->file, 1, Mapping::Access::kRead, 4999);
  CHECK(part.ok() && part->size() == 1 && part->data()[0] == 7);
  Mapping moved = std::move(*part);
  CHECK(moved.data()[0] == 7 && part->size() == 0);
}

TEST(memory_that_may_shrink_is_refused) {
  const Fd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK(::ftruncate(plain.get(), 100) == 0);
  const std::string expected =
      "pool 3 is ashmem that is not a memfd sealed against shrinking (F_SEAL_SHRINK), of ordinary pages";
  CHECK_SAME(require_ashmem(plain, 100, "pool 3").text(), expected);
  CHECK_SAME(require_ashmem(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 100, "pool 3").text(), expected);
}

TEST(constants_that_are_sealed_are_mapped_read_only) {
  Result<Fd> file = make_memfd("constants", 100);
  CHECK(::write(file->get(), "value", 5) == 5);
  CHECK(seal_contents(*file).ok() && cannot_change(*file));
  CHECK_SAME(Mapping::map(*file, 100, Mapping::Access::kReadWrite).status().text(),
             "memory that is sealed against writing cannot be mapped for writing: Operation not permitted");
  Result<Mapping> mapping = Mapping::map(*file, 100, Mapping::Access::kRead);
  CHECK(mapping.ok() && mapping->data()[0] == 'v');
  // As long as somebody has it mapped for writing, its contents cannot be sealed.
  Result<SharedMemory> used = SharedMemory::make(100);
  CHECK_SAME(seal_contents(used->file).text(),
             "shared memory cannot be sealed against writing: Device or resource busy");
}

TEST(a_fence_signals_once_to_everybody) {
  auto [signal, waiting] = fence();
  CHECK(waiting.state() == FenceState::kPending);
  CHECK_SAME(waiting.wait(now_ns()).words(), "MISSED_DEADLINE_TRANSIENT: 1 of 1 fences had not signalled in time");
  const Fence copy(std::move(*waiting.fd().duplicate()));
  signal.send();
  CHECK(waiting.wait().ok() && copy.wait().ok() && waiting.wait().ok());
  signal.fail();
  CHECK(copy.state() == FenceState::kSignalled);
}

TEST(a_fence_whose_signal_has_gone_is_in_error) {
  auto [signal, waiting] = fence();
  signal.fail();
  CHECK_SAME(waiting.wait().words(), "GENERAL_FAILURE: a fence is in error");
  auto [other_signal, cancelled] = fence();
  const Fence copy(std::move(*cancelled.fd().duplicate()));
  cancelled.cancel();
  CHECK(copy.state() == FenceState::kError);
  Signal(Fd()).send();  // nothing is left to be signalled
}

TEST(fences_are_waited_for_together) {
  auto [first_signal, first] = fence();
  auto [second_signal, second] = fence();
  first_signal.send();
  std::thread other([&signal = second_signal] { signal.send(); });
  CHECK(wait_for_all({&first, &second}).ok());
  other.join();
  auto [third_signal, third] = fence();
  third_signal.fail();
  CHECK_SAME(wait_for_all({&first, &third}).text(), "fence 1 is in error");
  auto [fourth_signal, fourth] = fence();
  Result<Interrupt> interrupt = Interrupt::make();
  interrupt->trigger();
  CHECK_SAME(wait_for_all({&first, &fourth}, kNoTime, interrupt->fd().get()).text(),
             "waiting for fences was interrupted");
  CHECK(wait_for_all({}).ok());
}

TEST(what_is_no_fence_is_refused) {
  const auto text = [](Fd end) { return Fence::received(std::move(end)).status().text(); };
  CHECK(Fence::received(std::move(pair(SOCK_STREAM).first)).ok());
  CHECK(Fence::received(std::move(pair(SOCK_SEQPACKET).first)).ok());
  CHECK_SAME(text(std::move(*make_memfd("no", 1))), "a fence that is not a socket");
  CHECK_SAME(text(Fd(::socket(AF_UNIX, SOCK_STREAM, 0))), "a fence that is a socket that is not connected");
  CHECK_SAME(text(std::move(pair(SOCK_DGRAM).first)),
             "a fence that is a socket of type SOCK_DGRAM, on which the end of the other side is not seen");
}
