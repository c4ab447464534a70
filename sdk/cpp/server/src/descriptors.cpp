#include "descriptors.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <set>

#include "failures.h"
#include "nnhal/fence.h"

namespace nnhal {
namespace {

constexpr const char* kExpected = "expected a file, shared memory, or an end of a pair of unix sockets (a fence or a bell)";

std::mutex ends_guard;
std::set<std::uint64_t> channel_ends;  // cookies of sockets, which the kernel never uses twice

std::uint64_t cookie_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  getsockopt(socket, SOL_SOCKET, 57 /* SO_COOKIE */, &cookie, &size);
  return cookie;
}

// Whether descriptors wait in a socket to be received: the kernel counts them for us from Linux 5.7 on.
bool has_inflight(int fd) {
  std::FILE* info = std::fopen(("/proc/self/fdinfo/" + std::to_string(fd)).c_str(), "re");
  if (info == nullptr) return false;
  char line[128];
  int count = 0;
  while (std::fgets(line, sizeof line, info) != nullptr) {
    if (std::sscanf(line, "scm_fds: %d", &count) == 1) break;
  }
  std::fclose(info);
  return count > 0;
}

// Says which object of the kernel a descriptor stands for, that is in no file system; empty for a file.
std::string kernel_object(int fd) {
  char target[PATH_MAX];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target);
  const std::string name(target, std::max<ssize_t>(size, 0));
  if (name.empty() || name[0] == '/' || name.rfind("pipe:", 0) == 0) return "";
  return "an object of the kernel (" + name + ")";
}

std::string fault_of(const Fd& descriptor) {
  const int fd = descriptor.get();
  struct stat status;
  if (fstat(fd, &status) != 0) return "closed";
  if (!S_ISSOCK(status.st_mode)) {
    const std::string object = kernel_object(fd);
    return !object.empty() || (status.st_mode & S_IFMT) != 0 ? object : "an unknown object of the kernel";
  }
  if (const std::string fault = fault_of_pair(descriptor); !fault.empty()) return fault;
  const std::lock_guard<std::mutex> lock(ends_guard);
  if (channel_ends.count(cookie_of(fd)) != 0) return "an end of a channel of this process";
  return has_inflight(fd) ? "a socket in which other descriptors wait to be received" : "";
}

}  // namespace

std::uint64_t remember_channel_end(const Fd& theirs) {
  const std::uint64_t cookie = cookie_of(theirs.get());
  const std::lock_guard<std::mutex> lock(ends_guard);
  channel_ends.insert(cookie);
  return cookie;
}

void forget_channel_end(std::uint64_t cookie) {
  const std::lock_guard<std::mutex> lock(ends_guard);
  channel_ends.erase(cookie);
}

void require_usable(const std::vector<Fd>& descriptors) {
  for (std::size_t i = 0; i < descriptors.size(); i++) {
    const std::string fault = fault_of(descriptors[i]);
    if (fault.empty()) continue;
    const std::string which =
        descriptors.size() > 1 ? text("descriptor ", i + 1, " of ", descriptors.size()) : "the descriptor";
    invalid_argument(which, " is ", fault, "; ", kExpected);
  }
}

void DescriptorTable::require_room(std::size_t count) const {
  const std::size_t held = put_.size() + offered_.size();
  if (held + count > kMostDescriptors) {
    exhausted("the session holds ", held, " descriptors and would take ", count, " more, at most ", kMostDescriptors,
              " are allowed");
  }
}

std::vector<std::uint64_t> DescriptorTable::put(std::vector<Fd> descriptors) {
  const std::lock_guard<std::mutex> lock(guard_);
  require_room(descriptors.size());
  std::vector<std::uint64_t> numbers;
  for (Fd& descriptor : descriptors) {
    put_[next_] = std::make_shared<const Fd>(std::move(descriptor));
    numbers.push_back(next_++);
  }
  return numbers;
}

SharedFd DescriptorTable::get(std::uint64_t number) const {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = put_.find(number);
  if (found == put_.end()) invalid_argument("descriptor ", number, " was not put on this link, or was dropped");
  return found->second;
}

std::map<std::uint64_t, SharedFd> DescriptorTable::claim(const std::vector<std::uint64_t>& numbers) {
  std::map<std::uint64_t, SharedFd> claimed;
  std::string unknown;
  const std::lock_guard<std::mutex> lock(guard_);
  for (const std::uint64_t number : numbers) {
    const auto found = put_.find(number);
    if (found == put_.end()) {
      unknown += (unknown.empty() ? "" : ", ") + std::to_string(number);
      continue;
    }
    claimed[number] = std::move(found->second);
    put_.erase(found);
  }
  if (!unknown.empty()) {
    invalid_argument("descriptors [", unknown, "] were not put on this link, were dropped, or are named twice");
  }
  return claimed;
}

void DescriptorTable::drop(const std::vector<std::uint64_t>& numbers) {
  const std::lock_guard<std::mutex> lock(guard_);
  for (const std::uint64_t number : numbers) {
    put_.erase(number);
    offered_.erase(number);
  }
}

std::uint64_t DescriptorTable::offer(Fd descriptor, std::int64_t owner) {
  const std::lock_guard<std::mutex> lock(guard_);
  require_room(1);
  offered_.emplace(next_, Offer{std::move(descriptor), owner});
  return next_++;
}

Fd DescriptorTable::take(std::uint64_t number) {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = offered_.find(number);
  if (found == offered_.end()) {
    invalid_argument("descriptor ", number, " is not offered, or was taken already, or its owner was released");
  }
  Fd descriptor = std::move(found->second.descriptor);
  offered_.erase(found);
  return descriptor;
}

void DescriptorTable::withdraw(std::int64_t owner) {
  const std::lock_guard<std::mutex> lock(guard_);
  for (auto offer = offered_.begin(); offer != offered_.end();) {
    offer = offer->second.owner == owner ? offered_.erase(offer) : std::next(offer);
  }
}

void DescriptorTable::clear() {
  const std::lock_guard<std::mutex> lock(guard_);
  put_.clear();
  offered_.clear();
}

std::size_t DescriptorTable::size() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return put_.size() + offered_.size();
}

std::vector<SharedFd> DescriptorTable::all_put() const {
  const std::lock_guard<std::mutex> lock(guard_);
  std::vector<SharedFd> all;
  for (const auto& [number, descriptor] : put_) all.push_back(descriptor);
  return all;
}

}  // namespace nnhal
