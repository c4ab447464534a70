#include "threads.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "failures.h"
#include "log.h"

namespace nnhal::threads {
namespace {

constexpr std::size_t kMostIdle = 8;

std::mutex guard;
std::condition_variable changed;
std::size_t running = 0;  // idle ones left out
std::size_t idle = 0;
std::deque<std::function<void()>> lent;

void guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    logs::error("a thread ended: unexpected exception reason='", error.what(), "'");
  }
}

void launch(const std::string& what, std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(guard);
    running++;
  }
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error& error) {
    {
      const std::lock_guard<std::mutex> lock(guard);
      running--;
    }
    exhausted(what, " cannot be served: ", error.what());
  }
}

void leave() {
  const std::lock_guard<std::mutex> lock(guard);
  running--;
  changed.notify_all();
}

// What a thread does that is lent: the first work, then whatever comes, until enough others are idle.
void do_lent(std::function<void()> work) {
  while (true) {
    guarded(work);
    work = nullptr;  // what it refers to is not kept by a thread that waits
    std::unique_lock<std::mutex> lock(guard);
    running--;
    changed.notify_all();
    if (idle == kMostIdle) return;
    idle++;
    changed.wait(lock, [] { return !lent.empty(); });
    work = std::move(lent.front());
    lent.pop_front();
  }
}

}  // namespace

void start(const std::string& what, std::function<void()> work) {
  launch(what, [work = std::move(work)]() mutable {
    guarded(work);
    work = nullptr;
    leave();
  });
}

void lend(const std::string& what, std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(guard);
    if (idle > 0) {  // it is taken here, and not by who wakes: others must not count on it meanwhile
      idle--;
      running++;
      lent.push_back(std::move(work));
      changed.notify_all();
      return;
    }
  }
  launch(what, [work = std::move(work)]() mutable { do_lent(std::move(work)); });
}

bool await_end(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(guard);
  return changed.wait_for(lock, time, [] { return running == 0; });
}

}  // namespace nnhal::threads
