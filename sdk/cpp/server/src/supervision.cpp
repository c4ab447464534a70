#include "supervision.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace nnhal {
namespace {

constexpr std::size_t kLongestKey = 257;  // with the newline at its end
constexpr char kReady = 'R', kWorks = 'W';

std::string received_key(int socket) {
  std::string key;
  char one;
  while (key.size() < kLongestKey && recv(socket, &one, 1, 0) == 1) {
    if (one == '\n') return key;
    key += one;
  }
  return "";
}

// How often the supervisor wants a sign of life, in milliseconds; -1 if it wants none.
int pause_between_signs() {
  const char* text = std::getenv("WATCHDOG_USEC");
  const long long microseconds = text == nullptr ? 0 : std::atoll(text);
  return microseconds <= 0 ? -1 : static_cast<int>(std::clamp<long long>(microseconds / 4000, 1, 60'000));
}

}  // namespace

Supervision::Supervision(int socket) : socket_(socket) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &ends, SFD_CLOEXEC));
  exits_.reset(eventfd(0, EFD_CLOEXEC));
  if (socket_) admin_key_ = received_key(socket_.get());
}

void Supervision::say(char word) const {
  // If it fails, the supervisor has ended; `wait` sees it.
  if (socket_) (void)send(socket_.get(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervision::ready() { say(kReady); }

void Supervision::exit() { eventfd_write(exits_.get(), 1); }

int Supervision::wait() {
  const int pause = socket_ ? pause_between_signs() : -1;
  while (true) {
    pollfd wakers[] = {{signals_.get(), POLLIN, 0}, {exits_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    const int ready = poll(wakers, 3, pause);
    if (ready == 0) say(kWorks);
    if (ready <= 0) continue;
    if (wakers[1].revents != 0) return kExitStatus;
    char byte;
    if (wakers[0].revents != 0 || recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 0) return 0;
  }
}

}  // namespace nnhal
