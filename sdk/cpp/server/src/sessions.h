// What one link owns: descriptors, and the HAL's objects by their handles. It ends when the link closes.
#ifndef NNHAL_SERVER_SESSIONS_H_
#define NNHAL_SERVER_SESSIONS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "channel.h"
#include "descriptors.h"
#include "failures.h"

namespace nnhal {

constexpr std::size_t kMostObjects = 4096;  // of a session
constexpr std::size_t kMostLaunched = 256;  // fenced executions of a session that have not ended

// Something that a session owns by a handle, until it is released or the session ends.
class Object {
 public:
  virtual ~Object() = default;
  // In plain words, for operators.
  virtual const char* kind() const = 0;
  // It was released, or its session is over: nothing new begins with it.
  virtual void end() {}
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(int pid, unsigned uid);

  const std::string token;  // what calls of the session carry; only its client knows it
  const std::string id;     // how others call it
  const int pid;
  const unsigned uid;
  const std::int64_t opened_ns;
  std::string client_name;  // what the client calls itself
  DescriptorTable descriptors;

  bool is_over() const { return over_; }
  // "a client, process 41": for lists and logs.
  std::string title() const;
  std::string owner() const;

  // Owns an object, and returns its handle, which is never used twice. Throws RESOURCE_EXHAUSTED_TRANSIENT.
  std::int64_t add(std::shared_ptr<Object> object);
  // Disowns an object, and closes what was offered in its name; whoever uses it keeps it alive.
  void release(std::int64_t handle);

  // Returns an object of a kind, which messages call `name`. Throws INVALID_ARGUMENT if there is none.
  template <class T>
  std::shared_ptr<T> get(std::int64_t handle, const char* name) const {
    if (auto found = std::dynamic_pointer_cast<T>(find(handle))) return found;
    invalid_argument(name, " ", handle, " does not exist in this session, or was released");
  }

  template <class T>
  std::map<std::int64_t, std::shared_ptr<T>> all() const {
    std::map<std::int64_t, std::shared_ptr<T>> found;
    for (const auto& [handle, object] : objects()) {
      if (auto one = std::dynamic_pointer_cast<T>(object)) found[handle] = std::move(one);
    }
    return found;
  }
  std::map<std::int64_t, std::shared_ptr<Object>> objects() const;

  // Serves a channel in a thread of its own until it ends, which it also does with the session. `exchange` receives a message
  // and answers it, and returns false at the end; ProtocolError ends the channel. Then `ended` is called.
  void serve(std::shared_ptr<Channel> channel, const std::string& name, std::function<bool()> exchange,
             std::function<void()> ended = [] {});

  // Counts launched executions. Throws RESOURCE_EXHAUSTED_TRANSIENT if there are too many.
  void enter_launch();
  void leave_launch() { launched_--; }
  int launched() const { return launched_; }
  // Becomes readable when the session ends, or when `wake` is called: who waits for fences looks around then.
  std::shared_ptr<const Fd> interrupt();
  void wake();

  // Ends the link, and thereby the session.
  std::function<void()> end_link = [] {};
  // Releases everything. For the link; harmless when repeated.
  void close();

 private:
  std::shared_ptr<Object> find(std::int64_t handle) const;
  void shut_channels();

  mutable std::mutex guard_;
  std::atomic<bool> over_{false};
  std::atomic<int> launched_{0};
  std::map<std::int64_t, std::shared_ptr<Object>> objects_;
  std::set<std::shared_ptr<Channel>> channels_;
  std::shared_ptr<const Fd> interrupt_;
};

// The open sessions of the process.
class Sessions {
 public:
  void opened(std::shared_ptr<Session> session);
  void closed(const Session& session);
  // Throws INVALID_ARGUMENT if the token is that of no open session.
  std::shared_ptr<Session> of(const std::string& token) const;
  // The oldest first.
  std::vector<std::shared_ptr<Session>> all() const;

 private:
  mutable std::mutex guard_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace nnhal

#endif  // NNHAL_SERVER_SESSIONS_H_
