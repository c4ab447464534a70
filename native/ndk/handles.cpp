#include "handles.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace nnhal::ndk {
namespace {

struct Entry {
  std::shared_ptr<Object> object;
  unsigned generation;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Entry> entries;
  std::uintptr_t next = 0x10000;
};

std::atomic<unsigned> forks{0};

// Never destroyed: threads of an application may use it while the process ends.
Table& table() {
  static Table& made = [&]() -> Table& {
    static Table* one = new Table;
    // A child must not find the mutex held by a thread that it does not have.
    ::pthread_atfork([] { one->mutex.lock(); }, [] { one->mutex.unlock(); },
                     [] {
                       ++forks;
                       one->mutex.unlock();
                     });
    return *one;
  }();
  return made;
}

}  // namespace

unsigned generation() { return forks; }

void* put(std::shared_ptr<Object> object) {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const std::uintptr_t handle = all.next;
  all.next += 16;
  all.entries.emplace(handle, Entry{std::move(object), forks});
  return reinterpret_cast<void*>(handle);
}

std::shared_ptr<Object> find(const void* handle) {
  require_pointer(handle, "an object");
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.entries.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == all.entries.end()) refuse(kUnexpectedNull, "a handle that was not given out, or is freed");
  if (found->second.generation != forks) refuse(kDeadObject, "an object that was made before the process forked");
  return found->second.object;
}

void forget(const void* handle) noexcept {
  std::shared_ptr<Object> released;  // after the lock, since it may take others
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.entries.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == all.entries.end()) return;
  if (found->second.generation != forks)
    new std::shared_ptr<Object>(std::move(found->second.object));  // its end would speak on the parent's sockets
  else
    released = std::move(found->second.object);
  all.entries.erase(found);
}

}  // namespace nnhal::ndk
