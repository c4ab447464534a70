#include "sessions.h"

#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "log.h"
#include "threads.h"

namespace nnhal {
namespace {

std::atomic<std::int64_t> sessions_made{0};
std::atomic<std::int64_t> handles_made{0};

std::string random_token() {
  unsigned char bytes[32];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) general_failure("the kernel has no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

void ring(const std::shared_ptr<const Fd>& event) {
  if (event != nullptr) eventfd_write(event->get(), 1);
}

}  // namespace

Session::Session(int pid, unsigned uid)
    : token(random_token()), id("s" + std::to_string(++sessions_made)), pid(pid), uid(uid), opened_ns(now_ns()) {}

std::string Session::owner() const { return pid > 0 ? "process " + std::to_string(pid) : "another container"; }

std::string Session::title() const { return (client_name.empty() ? "a client" : client_name) + ", " + owner(); }

std::int64_t Session::add(std::shared_ptr<Object> object) {
  const std::lock_guard<std::mutex> lock(guard_);
  if (over_) invalid_argument("the session is over");
  if (objects_.size() >= kMostObjects) {
    exhausted("the session owns ", objects_.size(), " objects, at most ", kMostObjects, " are allowed");
  }
  objects_[++handles_made] = std::move(object);
  return objects_.rbegin()->first;
}

void Session::release(std::int64_t handle) {
  descriptors.withdraw(handle);
  std::shared_ptr<Object> object;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return;
    object = std::move(found->second);
    objects_.erase(found);
  }
  object->end();  // outside of the lock: it may release others
}

std::shared_ptr<Object> Session::find(std::int64_t handle) const {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : found->second;
}

std::map<std::int64_t, std::shared_ptr<Object>> Session::objects() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return objects_;
}

void Session::serve(std::shared_ptr<Channel> channel, const std::string& name, std::function<bool()> exchange,
                    std::function<void()> ended) {
  {
    const std::lock_guard<std::mutex> lock(guard_);
    if (over_) channel->shutdown();
    channels_.insert(channel);
  }
  const auto forget = [this](const std::shared_ptr<Channel>& gone) {
    const std::lock_guard<std::mutex> lock(guard_);
    channels_.erase(gone);
  };
  try {
    threads::start("a " + name, [self = shared_from_this(), channel, name, exchange, ended, forget] {
      try {
        while (exchange()) {
        }
      } catch (const ProtocolError& error) {
        logs::warning(name, " ended: protocol error client='", self->title(), "' reason='", error.what(), "'");
      } catch (const std::exception& error) {
        logs::error(name, " ended: unexpected exception client='", self->title(), "' reason='", error.what(), "'");
      }
      forget(channel);
      channel->shutdown();
      ended();
    });
  } catch (...) {
    forget(channel);
    throw;
  }
}

void Session::enter_launch() {
  if (++launched_ > static_cast<int>(kMostLaunched)) {
    const int others = --launched_;
    exhausted(others, " fenced executions of this session have not ended, at most ", kMostLaunched, " may be launched");
  }
}

std::shared_ptr<const Fd> Session::interrupt() {
  const std::lock_guard<std::mutex> lock(guard_);
  if (interrupt_ == nullptr) {
    Fd event(eventfd(over_ ? 1 : 0, EFD_CLOEXEC));
    if (!event) exhausted("a descriptor for the execution: ", std::strerror(errno));
    interrupt_ = std::make_shared<const Fd>(std::move(event));
  }
  return interrupt_;
}

void Session::wake() {
  std::shared_ptr<const Fd> awaited;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    awaited = over_ ? interrupt_ : std::move(interrupt_);
    if (!over_) interrupt_ = nullptr;
  }
  ring(awaited);
}

void Session::shut_channels() {
  const std::lock_guard<std::mutex> lock(guard_);
  for (const auto& channel : channels_) channel->shutdown();
}

void Session::close() {
  over_ = true;
  // Channels first: a client that waits on one must see it close, not be told that an object is unknown.
  shut_channels();
  wake();
  std::map<std::int64_t, std::shared_ptr<Object>> objects;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    objects.swap(objects_);
  }
  for (const auto& [handle, object] : objects) object->end();
  descriptors.clear();
}

void Sessions::opened(std::shared_ptr<Session> session) {
  const std::lock_guard<std::mutex> lock(guard_);
  sessions_[session->token] = std::move(session);
}

void Sessions::closed(const Session& session) {
  const std::lock_guard<std::mutex> lock(guard_);
  sessions_.erase(session.token);
}

std::shared_ptr<Session> Sessions::of(const std::string& token) const {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = sessions_.find(token);
  if (found == sessions_.end()) invalid_argument("the call needs the token of an open link as metadata 'nnhal-session'");
  return found->second;
}

std::vector<std::shared_ptr<Session>> Sessions::all() const {
  std::vector<std::shared_ptr<Session>> all;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    for (const auto& [token, session] : sessions_) all.push_back(session);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->opened_ns < b->opened_ns; });
  return all;
}

}  // namespace nnhal
